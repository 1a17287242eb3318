// Training runs with the gate's verdicts; rankers side by side.
import { html } from '../../preact.js';
import { post, useScopes } from '../../api.js';
import { amend } from '../../url.js';
import { count, decimal } from '../../format.js';
import { Action, Badge } from '../../parts/controls.js';
import { Table } from '../../parts/pager.js';
import { Empty } from '../../parts/states.js';
import { Meter } from '../../parts/bars.js';
import { CurvesOfRun } from './curves.js';

export function Runs({ runs, opened, reload }) {
  const { can } = useScopes();
  const promote = (version) => async () => {
    await post(`/v1/models/${encodeURIComponent(version)}/promote`);
    reload();
  };
  const columns = [
    ['Version', (run) => html`<button type="button" class="link mono" aria-expanded=${opened === run.version}
      onClick=${() => amend({ run: opened === run.version ? null : run.version })}>${run.version}</button>`],
    ['Verdict', (run) => html`<${Badge} tone=${run.accepted ? 'good' : 'warn'}>${run.accepted ? 'accepted' : 'refused'}</${Badge}>${run.serving
      ? html` <${Badge} tone="accent">serves</${Badge}>` : ''}`],
    ['Reason', (run) => run.reason, 'wrap'],
    ['Examples', (run) => count(run.examples), 'number'],
    ['Record', (run) => count(run.seq), 'number'],
    ...(can('admin') ? [['Change', (run) => run.accepted && run.kept && !run.serving
      && html`<${Action} label="Promote" confirm="Make it serve?" act=${promote(run.version)} />`]] : []),
  ];
  const run = runs.find(({ version }) => version === opened);
  return html`<section class="card"><h2>Training runs and what the gate said</h2>
    ${runs.length === 0 ? html`<${Empty}
      title="Nothing was trained yet.">The first run comes after 30 completed executions, or now: <code>pml train</code></${Empty}>`
      : html`<${Table} rows=${runs} id=${(row) => `${row.seq}`} name="Training runs" rowsShown=${12} columns=${columns} />`}
    ${run && html`<${Details} run=${run} />`}
  </section>`;
}

function Details({ run }) {
  return html`<h3>${run.version}</h3><${CurvesOfRun} run=${run} /><div class="grid">
    <table aria-label="Measures"><thead><tr><th scope="col">Measure</th><th scope="col" class="number">Value</th><th scope="col"
      class="number">Samples</th></tr></thead>
      <tbody>${run.metrics.map(({ name, value, n }) => html`<tr key=${name}><th scope="row" class="wrap">${name}</th><td
        class="number">${decimal(value, 4)}</td><td class="number">${count(n)}</td></tr>`)}</tbody></table>
    <dl class="facts">
      ${Object.entries(run.settings).map(([name, value]) => html`<dt key="t${name}">${name}</dt><dd key=${name}>${value || '-'}</dd>`)}
      <dt>seed</dt><dd class="mono">${run.seed}</dd><dt>records to</dt><dd>${count(run.through_seq)}</dd>
      <dt>digest</dt><dd class="mono">${run.digest}</dd>
    </dl></div>`;
}

const RANKERS = [
  ['next.with_parts.mrr', 'trained ranker'], ['next.mrr.memory', 'memory of intents'], ['next.mrr.markov', 'what came after what'],
  ['next.mrr.cosine', 'similarity of texts'],
];

// The newest run of the ranker has all of them, measured on the same intents.
export function Rankers({ runs }) {
  const run = runs.find(({ part }) => part === 'ranker');
  const measured = run ? RANKERS.map(([name, title]) => ({ title, ...run.metrics.find((metric) => metric.name === name) })).filter(({ value }) => value !== undefined) : [];
  if (measured.length === 0) return null;
  return html`<section class="card"><h2>Rankers side by side</h2>
    <p class="quiet">Mean reciprocal rank of the next call on ${count(measured[0].n)} intents that they had not seen (1 is perfect).</p>
    <table aria-label="Rankers side by side"><tbody>${measured.map(({ title, value }) => html`<tr key=${title}><th scope="row">${title}</th>
      <td class="stretch"><${Meter} share=${value} label="${title}: ${decimal(value, 3)}" /></td><td class="number">${decimal(value, 3)}</td>
        </tr>`)}</tbody></table></section>`;
}
