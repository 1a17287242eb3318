// One execution: its steps as a timeline, their data flow, and what the log holds about them (arguments, errors, predictions).
import { html } from '../../preact.js';
import { get } from '../../api.js';
import { useLoad } from '../../load.js';
import { link } from '../../url.js';
import { readRecords } from '../../data/log.js';
import { clock, count, duration, percent, plural } from '../../format.js';
import { Badge } from '../../parts/controls.js';
import { Callee } from '../../parts/callee.js';
import { Dag } from '../../parts/dag.js';
import { Loaded } from '../../parts/states.js';

const KINDS = ['execution.started', 'step.started', 'step.finished', 'execution.finished', 'prediction.served', 'trace.completed'];

export function One({ id }) {
  const load = useLoad((signal) => get(`/v1/traces/${encodeURIComponent(id)}`, {}, signal), [id]);
  const read = useLoad((signal) => readRecords({ execution: id, kinds: KINDS.join(',') }, signal), [id]);
  return html`<p><a href=${link('executions')}>Executions</a></p><h1 class="wrap">${id}</h1>
    <${Loaded} load=${load} what="Loading the execution">${(trace) => html`
      <${Facts} trace=${trace} />
      <${Timeline} trace=${trace} records=${read.data ?? []} />
      ${trace.steps.length > 1 && html`<section class="card"><h2>Data flow</h2><${Dag}
        label="Steps and what they depend on" ...${flow(trace.steps)} /></section>`}
      <${Details} load=${read} />`}</${Loaded}>`;
}

const TONES = { open: 'accent', abandoned: 'warn', completed: 'good' };

function Facts({ trace }) {
  const took = trace.ended ? new Date(trace.ended) - new Date(trace.started) : null;
  return html`<section class="card"><h2 class="wrap">${trace.intent || 'Without an intent'}</h2><dl class="facts">
    <dt>State</dt><dd><${Badge}
      tone=${trace.success === false ? 'bad' : TONES[trace.status]}>${trace.status}${trace.success === false ? ', failed' : ''}</${Badge}></dd>
    <dt>Started</dt><dd>${clock(trace.started)}</dd>
    ${took !== null && html`<dt>Took</dt><dd>${took < 1 ? 'less than 1 ms' : duration(took)}</dd>`}
    <dt>Steps</dt><dd>${count(trace.steps.length)}</dd>
    <dt>Ask again</dt><dd><a href=${link('ask', null, { intent: trace.intent })}>What would pml answer to this intent now?</a></dd>
  </dl></section>`;
}

function flow(steps) {
  const at = new Map(steps.map((step, position) => [step.step, position]));
  const edges = steps.flatMap((step, to) => step.depends_on.filter((name) => at.has(name)).map((name) => [at.get(name), to]));
  return { nodes: steps.map((step) => ({ label: step.tool, note: step.step, tone: step.success ? 'good' : 'bad' })), edges };
}

// The place of each step: by the clock where the records of the log are at hand or durations are known, else one after another.
export function spans(steps, records) {
  const times = new Map();
  for (const { type, time, data } of records) {
    if (type === 'pml.step.started') times.set(data.step, { ...times.get(data.step), start: Date.parse(time) });
    if (type === 'pml.step.finished') times.set(data.step, { ...times.get(data.step), end: Date.parse(time) });
  }
  const known = steps.map((step) => {
    const { start, end } = times.get(step.step) ?? {};
    return end === undefined ? null : { start: start ?? end - (step.duration_ms ?? 0), end };
  });
  if (known.every(Boolean) && known.some(({ start, end }) => end > start)) return { spans: known, isByClock: true };
  let clockMs = 0;
  const placed = steps.map((step) => {
    const start = clockMs;
    clockMs += step.duration_ms || 1;
    return { start, end: clockMs };
  });
  return { spans: placed, isByClock: false };
}

function Timeline({ trace, records }) {
  const placed = spans(trace.steps, records);
  const first = Math.min(...placed.spans.map(({ start }) => start));
  const length = Math.max(...placed.spans.map(({ end }) => end)) - first || 1;
  if (trace.steps.length === 0) return html`<section class="card"><h2>Steps</h2><p class="quiet">No step was recorded.</p></section>`;
  return html`<section class="card"><h2>Steps</h2>
    <table class="timeline" aria-label="Steps as a timeline"><tbody>${trace.steps.map((step, at) => {
      const { start, end } = placed.spans[at];
      const style = { left: `${((start - first) / length) * 100}%`, width: `${((end - start) / length) * 100}%` };
      return html`<tr key=${step.step}><th scope="row"><${Callee} id=${step.tool} />${step.success ? '' : html` <${Badge}
        tone="bad">${step.error_kind ?? 'failed'}</${Badge}>`}</th>
        <td class="lane" aria-hidden="true"><span class="span ${step.success ? '' : 'bad'}" style=${style}></span></td>
        <td class="number">${step.duration_ms === undefined ? html`<span class="quiet">no duration</span>` : duration(step.duration_ms)}</td>
          </tr>`;
    })}</tbody></table>
    ${!placed.isByClock && html`<p class="small quiet">In recorded order, not to scale: these steps came without start and end times.</p>`}
  </section>`;
}

function Details({ load }) {
  return html`<section class="card"><h2>Records</h2><${Loaded} load=${load} what="Reading its records">${(records) => (records.length === 0
    ? html`<p class="quiet">The log holds no record of it any more.</p>`
    : html`<ol class="plain">${records.map((record) => html`<li key=${record.seq} class="result"><${RecordLine} record=${record}
        records=${records} /></li>`)}</ol><p class="quiet">${plural(records.length, 'record')}</p>`)}</${Loaded}></section>`;
}

function RecordLine({ record, records }) {
  const { type, data, seq, time } = record;
  const head = html`<span class="quiet">${seq} ${clock(time)}</span> `;
  if (type === 'pml.prediction.served') {
    const [guess] = data.ranked;
    const next = records.find((other) => other.seq > seq && ['pml.step.finished', 'pml.execution.finished'].includes(other.type));
    const came = next ? next.data.tool ?? 'done' : null;
    return html`${head}predicted <${Callee} id=${guess.item} /> ${percent(guess.p)}
      ${came && html` <${Badge} tone=${came === guess.item ? 'good' : 'bad'}>${came === guess.item ? 'hit' : `miss: ${came} came`}</${Badge}>`}`;
  }
  const { execution, steps, intent, ...rest } = data;
  return html`${head}${type.slice(4)} ${data.tool && html`<${Callee} id=${data.tool} />`}
    ${data.success === false && html` <${Badge} tone="bad">${data.error_kind ?? data.error ?? 'failed'}</${Badge}>`}
    <details><summary>Data (secrets were redacted before they were stored)</summary><pre tabindex="0">${JSON.stringify(rest, null, 2)}</pre>
      </details>`;
}
