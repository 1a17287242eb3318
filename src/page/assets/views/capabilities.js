// Capabilities: procedures that worked, with use and success, structure, intents, and who calls whom.
import { html } from '../preact.js';
import { getAll } from '../api.js';
import { useLoad } from '../load.js';
import { amend, link } from '../url.js';
import { count, percent, plural } from '../format.js';
import { Badge, Choice, Search } from '../parts/controls.js';
import { Table } from '../parts/pager.js';
import { Empty, Loaded } from '../parts/states.js';
import { One, stateOf } from './capabilities/one.js';

const CAPABILITIES_MAX = 10_000;
const ORDERS = {
  use: ['most used', (a, b) => b.usage_count - a.usage_count],
  new: ['newest', (a, b) => b.first_seq - a.first_seq],
  recent: ['used last', (a, b) => b.last_seq - a.last_seq],
  success: ['least success', (a, b) => a.success_rate - b.success_rate || b.usage_count - a.usage_count],
  name: ['name', (a, b) => a.name.localeCompare(b.name)],
};

export function Capabilities({ route }) {
  const load = useLoad((signal) => getAll('/v1/capabilities', 'capabilities', CAPABILITIES_MAX, signal), []);
  return html`<${Loaded} load=${load} what="Loading capabilities">${({ entries, more }) => (route.id === null
    ? html`<${List} all=${entries} more=${more} query=${route.query} />`
    : html`<${One} all=${entries} id=${route.id} reload=${load.reload} />`)}</${Loaded}>`;
}

function List({ all, more, query }) {
  const { q = '', order = 'use', status = 'all' } = query;
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (capability) => [capability.name, capability.description, ...capability.calls, ...capability.intents].join(' ').toLowerCase();
  const shown = all
    .filter((capability) => status === 'all' || stateOf(capability) === status)
    .filter((capability) => words.length === 0 || words.every((word) => text(capability).includes(word)))
    .sort((ORDERS[order] ?? ORDERS.use)[1]);
  const states = [...new Set(all.map(stateOf))].sort();
  return html`<h1>Capabilities</h1>
    <div class="card"><div class="row">
      <div class="grow"><${Search} label="Words of name, tools or intents" value=${q} onInput=${(value) => amend({ q: value })} /></div>
      <${Choice} label="Order" value=${order} options=${Object.entries(ORDERS).map(([name, [title]]) => [name, title])}
        onChange=${(value) => amend({ order: value === 'use' ? null : value })} />
      <${Choice} label="State" value=${status} options=${[['all', 'any'], ...states.map((name) => [name, name])]}
        onChange=${(value) => amend({ status: value === 'all' ? null : value })} />
    </div></div>
    <div class="card">${shown.length === 0
      ? html`<${Empty} title=${all.length ? 'No capability matches.' : 'No capability yet.'}>${all.length ? 'Change the search.'
        : html`pml learns one from every successful
          execution with two or more steps; <a href=${link('now')}>Now</a> shows how to publish one.`}</${Empty}>`
      : html`<${Table} rows=${shown} id=${(row) => row.capability} name="Capabilities" columns=${COLUMNS} />
        <p class="quiet">${plural(shown.length, 'capability', 'capabilities')}${more ? `; the first ${count(CAPABILITIES_MAX)} by id were searched` : ''}</p>`}
    </div>`;
}

const COLUMNS = [
  ['Name', (row) => html`<a href=${link('capabilities', row.capability)}>${row.name}</a>`, 'wrap'],
  ['State', (row) => html`<${Badge} tone=${row.retired || row.merged_into ? 'warn' : row.status === 'learned' ? 'good' : 'accent'}>${stateOf(row)}</${Badge}>`],
  ['Calls', (row) => row.calls.length, 'number'],
  ['Level', (row) => row.level, 'number'],
  ['Used', (row) => plural(row.usage_count, 'time'), 'number'],
  ['Success', (row) => percent(row.success_rate), 'number'],
];
