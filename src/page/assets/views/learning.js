// Learning: what serves, what the gate said about each training run, the curves of the runs, the weights of the ranker.
import { html } from '../preact.js';
import { get, post, useScopes } from '../api.js';
import { useInterval, useLoad } from '../load.js';
import { count, duration, plural } from '../format.js';
import { Action, Badge } from '../parts/controls.js';
import { SignalBars } from '../parts/bars.js';
import { QualityOverTime } from '../parts/quality.js';
import { Empty, Loaded } from '../parts/states.js';
import { Windows } from './now.js';
import { Rankers, Runs } from './learning/runs.js';
import { LatestCurves, RunningCurves } from './learning/curves.js';
import { Judged } from './learning/judged.js';

const REFRESH_MS = 5000;
const PARTS = {
  head: 'how well a tool fits an intent', encoder: 'which call follows the calls so far', shgat: 'which capability an intent asks for',
  ranker: 'how much each signal counts',
};

export function Learning({ route }) {
  const load = useLoad((signal) => get('/v1/models', {}, signal), []);
  useInterval(load.reload, REFRESH_MS);
  return html`<h1>Learning</h1><${Loaded} load=${load} what="Loading models">${(answer) => html`
    <div class="grid">
      <${Serving} answer=${answer} reload=${load.reload} />
      <${Trainer} answer=${answer} reload=${load.reload} />
    </div>
    ${answer.trainer?.running ? html`<${RunningCurves} running=${answer.trainer.running} />` : html`<${LatestCurves} runs=${answer.runs} />`}
    <${Runs} runs=${answer.runs} opened=${route.query.run ?? null} reload=${load.reload} />
    <${Rankers} runs=${answer.runs} />
    <div class="grid">
      <section class="card"><h2>Predictions that were served</h2><${QualityOverTime} calibration=${true} />
        <${Windows} model=${answer.models[0]} /></section>
      <${Judged} thresholds=${answer.models[0].thresholds} />
    </div>
    <${Weights} model=${answer.models[0]} />`}</${Loaded}>`;
}

function Serving({ answer, reload }) {
  const { can } = useScopes();
  const rollBack = (part) => async () => {
    await post('/v1/models/rollback', { part });
    reload();
  };
  return html`<section class="card"><h2>What serves</h2><table aria-label="Versions that serve"><tbody>
    ${Object.entries(PARTS).map(([part, what]) => {
      const { version, previous } = answer.serving[part] ?? {};
      return html`<tr key=${part}><th scope="row"><strong>${part}</strong><br /><span class="small quiet">${what}</span></th>
        <td>${version ? html`<span class="mono">${version}</span><br />` : html`<span
          class="quiet">${part === 'ranker' ? 'the weights learnt online' : 'none'}</span>`}
          ${version && can('admin') && html`<${Action} label="Roll back" confirm="Back to ${previous ?? 'none'}?" act=${rollBack(part)} />`}</td>
            </tr>`;
    })}
  </tbody></table></section>`;
}

function Trainer({ answer, reload }) {
  const { can } = useScopes();
  const { trainer } = answer;
  const train = async () => {
    await post('/v1/models/train', {});
    setTimeout(reload, 500);
    return 'Asked for.';
  };
  if (!trainer) return html`<section class="card"><h2>Trainer</h2><${Empty}
    title="This process does not train.">Another one with the role trainer does.</${Empty}></section>`;
  return html`<section class="card"><h2>Trainer</h2><dl class="facts">
      <dt>State</dt><dd>${trainer.running ? html`<${Badge}
        tone="accent">training</${Badge}> ${plural(trainer.running.epochs, 'epoch')}, records to ${count(trainer.running.through_seq)}` : 'idle'}
        </dd>
      <dt>Last run</dt><dd>${trainer.last
        ? html`${trainer.last.verdict}, took ${duration(trainer.last.seconds * 1000)}${trainer.last.problem ? `: ${trainer.last.problem}` : ''}` : 'none since this process started'}</dd>
    </dl>
    ${can('admin') && html`<p><${Action} label="Train now" act=${train} /></p>`}
    <p class="small quiet">The trainer runs by itself after enough new executions.</p></section>`;
}

function Weights({ model }) {
  const bars = (weights) => Object.entries(weights).map(([name, adds]) => ({ name, adds }));
  return html`<section class="card"><h2>Weights learnt online</h2>
    <p class="quiet">From ${plural(model.examples, 'example')}, version <span class="mono">${model.version}
      </span>. They serve while no trained ranker does.</p>
    <div class="grid">
      <div><h3>First call</h3><${SignalBars} shown=${40} label="Weights for the first call" signals=${bars(model.first_weights)} /></div>
      <div><h3>Later calls</h3><${SignalBars} shown=${40} label="Weights for later calls" signals=${bars(model.weights)} /></div>
    </div></section>`;
}
