// Snapshots: the state as files at positions of the log.
import { html } from '../../preact.js';
import { get, post, useScopes } from '../../api.js';
import { useLoad } from '../../load.js';
import { ago, bytes, clock, count, shortId } from '../../format.js';
import { Action, Badge } from '../../parts/controls.js';
import { Table } from '../../parts/pager.js';
import { Empty, Loaded } from '../../parts/states.js';

const COLUMNS = [
  ['Record', ({ seq }) => count(seq), 'number'],
  ['Taken', ({ taken_at: at }) => at && html`<span title=${clock(at)}>${ago(at)}</span>`],
  ['Size', ({ bytes: size }) => size !== undefined && bytes(size), 'number'],
  ['Rows', ({ rows }) => rows !== undefined && count(rows), 'number'],
  ['Digest', ({ digest }) => digest && html`<span class="mono" title=${digest}>${shortId(digest)}</span>`],
  ['State', ({ problem }) => (problem ? html`<${Badge} tone="bad">${problem}</${Badge}>` : html`<${Badge} tone="good">usable</${Badge}>`)],
];

export function Snapshots() {
  const { can } = useScopes();
  const load = useLoad((signal) => get('/v1/snapshots', {}, signal), []);
  const take = async () => {
    const { seq } = await post('/v1/snapshots');
    load.reload();
    return `Taken at record ${count(seq)}.`;
  };
  return html`<div class="card"><${Loaded} load=${load} what="Loading snapshots">${({ snapshots }) => html`
    ${snapshots.length === 0 ? html`<${Empty} title="No snapshot yet.">A server takes one every million records or every hour; it makes the next
      start fast. ${can('admin') ? 'Take one now:' : ''}</${Empty}>`
      : html`<${Table} rows=${[...snapshots].reverse()} id=${({ seq }) => seq} name="Snapshots" columns=${COLUMNS} />`}
    ${can('admin') && html`<p></p><${Action} label="Take a snapshot" act=${take} />`}`}</${Loaded}></div>`;
}
