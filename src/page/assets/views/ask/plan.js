// A plan for the intent, drawn by layers, with its alternatives; a person accepts or rejects it.
import { html } from '../../preact.js';
import { useScopes } from '../../api.js';
import { useLoad } from '../../load.js';
import { amend } from '../../url.js';
import { giveFeedback } from '../../data/publish.js';
import { percent, plural } from '../../format.js';
import { Meter } from '../../parts/bars.js';
import { Action, Badge, Choice } from '../../parts/controls.js';
import { Callee } from '../../parts/callee.js';
import { Dag } from '../../parts/dag.js';
import { Empty, Loaded } from '../../parts/states.js';
import { askAt } from './at.js';

export function Plan({ question, chosen }) {
  const ask = (signal) => (question.intent ? askAt('/v1/suggest', question, signal) : { plan: null });
  const load = useLoad(ask, [question.intent, question.context.join(), question.at]);
  return html`<section class="card" aria-labelledby="plan" aria-busy=${load.loading}>
    <h2 id="plan">Which plan gets there</h2>
    <${Loaded} load=${load} what="Asking">${(answer) => answer.plan
      ? html`<${Chosen} answer=${answer} chosen=${chosen} reload=${load.reload} />`
      : html`<${Empty} title="No plan.">${question.intent ? 'Plans come from tools that are known and executions that succeeded.' : 'A plan needs an intent.'}</${Empty}>`}</${Loaded}>
  </section>`;
}

function Chosen({ answer, chosen, reload }) {
  const plans = [answer.plan, ...(answer.alternatives ?? [])];
  const plan = plans[chosen] ?? plans[0];
  const options = plans.map((one, at) => [String(at), `${at === 0 ? 'Best' : `Alternative ${at}`}: ${plural(one.tasks.length, 'call')}, ${percent(one.confidence)}`]);
  return html`
    ${plans.length > 1 && html`<${Choice} label="Plan" value=${String(plans.indexOf(plan))} options=${options}
      onChange=${(at) => amend({ plan: at === '0' ? null : at })} />`}
    <div class="spread"><span>Confidence ${percent(plan.confidence)}</span>
      <${Badge} tone=${plan.confidence >= answer.threshold ? 'good' : 'warn'}>${plan.confidence >= answer.threshold ? 'sure' : 'a guess'}
        </${Badge}></div>
    <${Meter} share=${plan.confidence} threshold=${answer.threshold}
      label="Confidence ${percent(plan.confidence)}, threshold ${percent(answer.threshold)}" />
    <${Dag} label="The plan as a graph" nodes=${plan.tasks.map(node)} edges=${edges(plan.tasks)} />
    <ul class="small">${plan.rationale.map((reason) => html`<li key=${reason} class="wrap">${reason}</li>`)}</ul>
    ${answer.missing?.length > 0 && html`<h3>Missing</h3><ul class="small">${answer.missing.map((missing, at) => html`<li
      key=${at}><${Missing} missing=${missing} /></li>`)}</ul>`}
    ${answer.suggested_capabilities?.length > 0 && html`<p class="small">Could be called instead of a part:
      ${answer.suggested_capabilities.map((id) => html` <${Callee} key=${id} id=${id} name=${answer.handles?.[id]} />`)}</p>`}
    <${Feedback} plan=${plan} reload=${reload} />`;
}

const node = (task) => ({ label: task.tool, note: `${percent(task.p)}${task.repeated ? ', repeated' : ''}${missingArguments(task)}`, tone: task.p < 0.5 ? 'warn' : 'good' });

const missingArguments = (task) => {
  const own = task.arguments.filter((argument) => argument.fed_by === undefined && argument.required).length;
  return own > 0 ? `, ${plural(own, 'argument')} to give` : '';
};

const edges = (tasks) => tasks.flatMap((task, to) => task.depends_on.map((from) => [from, to]));

const Missing = ({ missing: { item, needed_by: by, callable } }) => html`<${Callee} id=${item} />, needed by <${Callee}
  id=${by} />${callable ? '' : '; it cannot be called'}`;

function Feedback({ plan, reload }) {
  const { can } = useScopes();
  if (!can('publish')) return null;
  const give = (verdict, text) => async () => {
    await giveFeedback({ suggestion: plan.id }, verdict);
    setTimeout(reload, 300);
    return text;
  };
  return html`<div class="row" role="group" aria-label="Feedback about this plan" key=${plan.id}>
    <${Action} label="Accept" tone="primary" act=${give('accepted', 'Thank you: its confidence rises.')} />
    <${Action} label="Reject" act=${give('rejected', 'Thank you: its confidence falls.')} />
  </div>`;
}
