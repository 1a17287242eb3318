// The log, a page at a time, backwards from its end or from a position.
import { html } from '../../preact.js';
import { useLoad } from '../../load.js';
import { amend } from '../../url.js';
import { SHOWN_KINDS, readBackwards, tailSeq } from '../../data/log.js';
import { clock, count, kindName } from '../../format.js';
import { Choice, Field } from '../../parts/controls.js';
import { Empty, Loaded } from '../../parts/states.js';

const PAGE = 40;

export function LogTail({ query }) {
  const before = Number(query.before) || null;
  const kind = query.kind ?? 'all';
  const load = useLoad(async (signal) => readBackwards({
    before: before ?? (await tailSeq(signal)) + 1, kinds: kind === 'all' ? SHOWN_KINDS : [kind], signal, enough: (list) => list.length >= PAGE,
  }), [before, kind]);
  return html`<div class="card"><div class="row">
      <${Field} label="Before record (empty: the end)"><input type="number" min="1" value=${before ?? ''}
        onChange=${(event) => amend({ before: event.target.value })} /></${Field}>
      <${Choice} label="Kind" value=${kind} options=${[['all', 'all but vectors and parameters'], ...SHOWN_KINDS.map((name) => [name, name])]}
        onChange=${(value) => amend({ kind: value === 'all' ? null : value })} />
      <button type="button" onClick=${load.reload}>Read again</button>
    </div></div>
    <div class="card" aria-busy=${load.loading}><${Loaded} load=${load} what="Reading the log">${({ found, before: rest }) => {
      const page = found.slice(0, PAGE);
      const next = page.length === PAGE ? page[PAGE - 1].seq : rest;
      return html`${page.length === 0 ? html`<${Empty}
        title="No such record here.">${next ? 'Read further back.' : 'Publish an event, and it is the first one.'}</${Empty}>`
        : html`<ol class="plain">${page.map((record) => html`<li key=${record.seq} class="result"><${Line} record=${record} /></li>`)}</ol>`}
        ${next !== null && html`<button type="button" onClick=${() => amend({ before: next })}>Further back</button>`}`;
    }}</${Loaded}></div>`;
}

function Line({ record }) {
  const { seq, type, time, source, data } = record;
  return html`<div class="spread"><strong>${kindName(type)}</strong><span
    class="small quiet">record ${count(seq)}, ${clock(time)}, from ${source}</span></div>
    <details><summary class="wrap">${data.intent ?? data.tool ?? data.execution ?? data.version ?? data.name ?? 'data'}</summary><pre
      tabindex="0">${JSON.stringify(data, null, 2)}</pre></details>`;
}
