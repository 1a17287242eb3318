// One capability: use, success over time, intents, structure, code, who calls whom, and what a person decides about it.
import { html, useState } from '../../preact.js';
import { get, post, useScopes } from '../../api.js';
import { useLoad } from '../../load.js';
import { link } from '../../url.js';
import { count, percent, plural, timeTick } from '../../format.js';
import { Action, Field } from '../../parts/controls.js';
import { CAPABILITY, Callee } from '../../parts/callee.js';
import { Meter } from '../../parts/bars.js';
import { LineChart } from '../../parts/chart.js';
import { Dag } from '../../parts/dag.js';
import { Empty, Loaded } from '../../parts/states.js';

const RUNS = 500;
const GROUPS = 12;

export const stateOf = ({ status, retired, merged_into: into }) => (retired ? 'retired' : into ? 'merged' : status);

export function One({ all, id, reload }) {
  const { can } = useScopes();
  const found = all.find((capability) => capability.capability === id);
  if (!found) {
    return html`<p><a href=${link('capabilities')}>Capabilities</a></p><h1>${id}</h1>
      <${Empty} title="No capability has this id.">It may come from another server, or from a moment when it did not exist.</${Empty}>`;
  }
  const names = new Map(all.map((capability) => [`${CAPABILITY}${capability.capability}`, capability.name]));
  const called = found.calls.filter((callee) => callee.startsWith(CAPABILITY));
  const List = ({ ids }) => html`<ul>${ids.map((callee) => html`<li key=${callee}><${Callee} id=${callee} name=${names.get(callee)} /></li>`)}
    </ul>`;
  return html`<p><a href=${link('capabilities')}>Capabilities</a></p><h1 class="wrap">${found.name}</h1>
    <div class="grid">
      <section class="card"><h2>Use</h2><dl class="facts">
        <dt>Used</dt><dd>${plural(found.usage_count, 'time')}</dd>
        <dt>Success</dt><dd>${percent(found.success_rate)} <${Meter} share=${found.success_rate}
          label="Success ${percent(found.success_rate)}" /></dd>
        <dt>State</dt><dd>${stateOf(found)}</dd>
        <dt>Handle</dt><dd class="mono">${found.handle}</dd>
        ${found.own_name && html`<dt>Own name</dt><dd>${found.own_name}</dd>`}
        ${found.merged_into && html`<dt>Merged into</dt><dd><${Callee} id=${found.merged_into} name=${names.get(found.merged_into)} /></dd>`}
        <dt>Level</dt><dd>${found.level} ${found.level === 0 ? '(calls tools only)' : '(calls other capabilities)'}</dd>
        <dt>Records</dt><dd>first ${count(found.first_seq)}, last ${count(found.last_seq)}</dd>
        <dt>Id</dt><dd class="mono">${found.capability}</dd>
      </dl>${found.description && html`<p>${found.description}</p>`}
        <p><a href=${link('graph', null, { node: `${CAPABILITY}${id}` })}>Show it in the graph</a></p></section>
      <${OverTime} id=${id} />
      ${can('admin') && html`<${Decide} found=${found} all=${all} reload=${reload} />`}
    </div>
    <section class="card"><h2>Structure</h2><${Dag} label="Calls and data flow"
      nodes=${found.calls.map((callee) => ({ label: names.get(callee) ?? callee }))} edges=${found.flow} />
      <p class="small quiet">A line means that the lower call uses the output of the upper one.</p></section>
    <section class="card"><h2>Intents it was used for</h2>${found.intents.length === 0 ? html`<p class="quiet">None was recorded.</p>`
        : html`<ul>${found.intents.map((intent) => html`<li key=${intent}><a class="clamp" href=${link('ask', null, { intent })}>${intent}</a></li>`)}</ul>`}
          </section>
    ${(found.parents.length > 0 || called.length > 0) && html`<div class="grid">
      <section class="card"><h2>Calls</h2><${List} ids=${called} /></section>
      <section class="card"><h2>Is called by</h2><${List} ids=${found.parents} /></section></div>`}
    ${found.code && html`<section class="card"><h2>Code</h2><pre tabindex="0">${found.code}</pre></section>`}
    ${found.parameters_schema && html`<section class="card"><h2>Parameters</h2><pre
      tabindex="0">${JSON.stringify(found.parameters_schema, null, 2)}</pre></section>`}`;
}

// The share of runs that succeeded, in up to twelve groups of equal size, from the earliest to the latest.
export function successOverTime(executions) {
  const runs = executions.filter(({ outcome }) => outcome !== 'open').reverse();
  const size = Math.max(1, Math.ceil(runs.length / GROUPS));
  const groups = [];
  for (let at = 0; at < runs.length; at += size) groups.push(runs.slice(at, at + size));
  const middle = (group) => Date.parse(group[Math.floor(group.length / 2)].started);
  return groups.map((group) => [middle(group), group.filter(({ outcome }) => outcome === 'success').length / group.length]);
}

function OverTime({ id }) {
  const load = useLoad((signal) => get('/v1/executions', { capability: CAPABILITY + id, limit: RUNS }, signal), [id]);
  return html`<section class="card"><h2>Success over time</h2><${Loaded} load=${load} what="Loading its runs">${({ executions }) => {
    if (executions.length === 0) return html`<p class="quiet">None of its runs is among the latest executions.</p>`;
    return html`<${LineChart} label="Share of runs that succeeded" y=${[0, 1]} xLabel="" yLabel="" xFormat=${timeTick}
        series=${[{ name: 'success', points: successOverTime(executions) }]} />
      <p class="small quiet">${plural(executions.length, 'run')}; <a href=${link('executions', null, { capability: CAPABILITY + id })}>show them</a></p>`;
  }}</${Loaded}></section>`;
}

function Decide({ found, all, reload }) {
  const [name, setName] = useState('');
  const [into, setInto] = useState('');
  const decide = (what, body) => async () => {
    await post(`/v1/capabilities/${found.capability}/${what}`, body);
    reload();
    return 'Recorded.';
  };
  return html`<section class="card" aria-labelledby="decide"><h2 id="decide">Decide</h2>
    <div class="row"><${Field} label="New name"><input value=${name} maxlength="200" onInput=${(event) => setName(event.target.value)} /></${Field}>
      <${Action} label="Rename" act=${decide('rename', { name })} />
      ${found.own_name !== undefined && html`<${Action} label="Undo the renaming" act=${decide('rename', { name: null })} />`}</div>
    <div class="row"><${Field} label="Same as (handle)"><input class="mono" list="handles" value=${into} spellcheck=${false}
        onInput=${(event) => setInto(event.target.value)} /></${Field}>
      <datalist id="handles">${all.slice(0, 500).map(({ handle }) => html`<option key=${handle} value=${handle} />`)}</datalist>
      ${found.merged_into === undefined ? html`<${Action} label="Merge" confirm="It is no longer offered by itself." act=${decide('merge', { into: into.trim() })} />`
        : html`<${Action} label="Undo the merging" act=${decide('merge', { into: null })} />`}</div>
    <div class="row">
      ${found.approved ? html`<${Action} label="Undo the approval" act=${decide('approve', { approved: false })} />`
        : html`<${Action} label="Approve" act=${decide('approve', { approved: true })} />`}
      ${found.retired ? html`<${Action} label="Undo the retirement" act=${decide('retire', { retired: false })} />`
        : html`<${Action} label="Retire" confirm="It is no longer offered." act=${decide('retire', { retired: true })} />`}</div>
  </section>`;
}
