// Why an outcome was predicted: all signals, and the executions that taught them.
import { html } from '../../preact.js';
import { useLoad } from '../../load.js';
import { amend } from '../../url.js';
import { decimal, percent, signalName } from '../../format.js';
import { SignalBars } from '../../parts/bars.js';
import { Callee, Execution } from '../../parts/callee.js';
import { Loaded } from '../../parts/states.js';
import { askAt } from './at.js';

export function Why({ question, item }) {
  const load = useLoad((signal) => askAt('/v1/explain', { ...question, item }, signal), [question.intent, question.context.join(), question.at, item]);
  return html`<section class="card wide" aria-labelledby="why">
    <div class="spread"><h2 id="why">Why <${Callee} id=${item} />?</h2><button type="button" onClick=${() => amend({ why: null })}>Close</button>
      </div>
    <${Loaded} load=${load} what="Asking">${(answer) => html`<div class="grid">
      <div>
        <p>Probability ${percent(answer.p)}, place ${answer.rank}${answer.clause ? html`, for the part \u201c${answer.clause}\u201d` : ''}.</p>
        <${SignalBars} shown=${30} label="All signals"
          signals=${answer.reasons.map(({ signal, value, weight, adds }) => ({ name: signal, adds, detail: `value ${decimal(value, 3)} x weight ${decimal(weight, 3)}` }))} />
      </div>
      <${Taught} taught=${answer.taught ?? []} />
    </div>`}</${Loaded}>
  </section>`;
}

function Taught({ taught }) {
  const byExecution = new Map();
  for (const lesson of taught) {
    const known = byExecution.get(lesson.execution) ?? { ...lesson, signals: [] };
    known.signals.push(signalName(lesson.signal));
    byExecution.set(lesson.execution, known);
  }
  if (byExecution.size === 0) return html`<p class="quiet">No recorded execution stands behind it.</p>`;
  return html`<div><h3>Learnt from these executions</h3><ul class="plain">${[...byExecution.values()].map((lesson) => html`
    <li key=${lesson.execution} class="result"><${Execution} id=${lesson.execution}>${lesson.intent}</${Execution}><br />
      <span class="small quiet">${[...new Set(lesson.signals)].join(', ')}${lesson.similarity ? `, ${percent(lesson.similarity)} similar` : ''}, record ${lesson.seq}</span></li>`)}</ul></div>`;
}
