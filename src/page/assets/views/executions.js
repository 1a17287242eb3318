// Executions: a list with search, the latest first; and one execution as a timeline.
import { html, useState } from '../preact.js';
import { amend, go, link } from '../url.js';
import { get } from '../api.js';
import { useLoad, useSettled } from '../load.js';
import { ago, clock, duration } from '../format.js';
import { Action, Badge, Choice, Field, Search } from '../parts/controls.js';
import { Execution } from '../parts/callee.js';
import { Empty, Loaded } from '../parts/states.js';
import { Table } from '../parts/pager.js';
import { One } from './executions/one.js';

const PAGE = 100;

export function Executions({ route }) {
  if (route.id !== null) return html`<${One} key=${route.id} id=${route.id} />`;
  return html`<${List} query=${route.query} />`;
}

const TONES = { open: 'accent', success: 'good', failure: 'bad', abandoned: 'warn' };
const time = (text) => (text ? new Date(text).toISOString() : null);

// The server looks at so many executions for one question; `next` says where to go on.
function usePages({ q, tool, capability, outcome, since, until }) {
  const settled = useSettled(JSON.stringify({ q, tool, capability, outcome, since: time(since), until: time(until), limit: PAGE }));
  const [later, setLater] = useState({ rows: [], next: undefined });
  const load = useLoad((signal) => {
    setLater({ rows: [], next: undefined });
    return get('/v1/executions', JSON.parse(settled), signal);
  }, [settled]);
  const next = later.next === undefined ? load.data?.next ?? null : later.next;
  const more = async () => {
    const page = await get('/v1/executions', { ...JSON.parse(settled), after: next });
    setLater({ rows: [...later.rows, ...page.executions], next: page.next });
  };
  return { load, rows: [...(load.data?.executions ?? []), ...later.rows], next, more };
}

function List({ query }) {
  const { load, rows, next, more } = usePages(query);
  return html`<h1>Executions</h1>
    <${Filters} query=${query} />
    <div class="card"><${Loaded} load=${load} what="Loading executions">${({ kept }) => html`
      ${rows.length > 0 ? html`<${Table} rows=${rows} id=${({ execution }) => execution} name="Executions" columns=${COLUMNS}
        rowsShown=${1000} />` : html`<${Nothing} any=${kept > 0} />`}
      ${next && html`<p><${Action} label=${rows.length ? 'Show older ones' : 'Search older ones'} act=${more} /></p>`}`}</${Loaded}>
    </div>`;
}

const COLUMNS = [
  ['Intent', (row) => html`<div class="clamp"><${Execution} id=${row.execution}>${row.intent || row.execution}</${Execution}></div>`, 'wrap'],
  ['Outcome', (row) => html`<${Badge} tone=${TONES[row.outcome]}>${row.outcome === 'open' ? 'under way' : row.outcome}</${Badge}>`],
  ['Steps', (row) => html`<span title=${row.tools.join(' > ')}>${row.steps}${row.failed_steps ? `, ${row.failed_steps} failed` : ''}</span>`, 'number'],
  ['Took', (row) => (row.ended ? duration(new Date(row.ended) - new Date(row.started)) : ''), 'number'],
  ['Started', (row) => html`<span title=${clock(row.started)}>${ago(row.started)}</span>`, 'number'],
];

function Filters({ query }) {
  const [id, setId] = useState('');
  const set = (name) => (value) => amend({ [name]: value });
  const openOne = (event) => {
    event.preventDefault();
    if (id.trim()) go(link('executions', id.trim()));
  };
  return html`<div class="card"><div class="row">
      <div class="grow"><${Search} label="Words of the intent" value=${query.q ?? ''} onInput=${set('q')} /></div>
      <${Search} label="Tool" value=${query.tool ?? ''} onInput=${set('tool')} placeholder="server:tool" />
      <${Choice} label="Outcome" value=${query.outcome ?? 'all'} onChange=${(value) => amend({ outcome: value === 'all' ? null : value })}
        options=${[['all', 'any'], ['open', 'under way'], ['success', 'success'], ['failure', 'failure'], ['abandoned', 'abandoned']]} />
      <${Field} label="From"><input type="datetime-local" value=${query.since ?? ''}
        onChange=${(event) => amend({ since: event.target.value })} /></${Field}>
      <${Field} label="Until"><input type="datetime-local" value=${query.until ?? ''}
        onChange=${(event) => amend({ until: event.target.value })} /></${Field}>
      <form class="row" onSubmit=${openOne}><${Field} label="Or its id"><input value=${id} onInput=${(event) => setId(event.target.value)}
        spellcheck=${false} /></${Field}>
        <button>Open</button></form>
    </div></div>`;
}

const Nothing = ({ any }) => (any
  ? html`<${Empty} title="No execution matches.">Change the search.</${Empty}>`
  : html`<${Empty} title="No execution yet.">Agents publish <code>execution.started</code>, their steps and
      <code>execution.finished</code>; the view <a href=${link('now')}>Now</a> has an example to copy.</${Empty}>`);
