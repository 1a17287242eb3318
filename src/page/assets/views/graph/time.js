// The graph as of a moment of the log. Offered only by servers whose graph takes `at`.
import { html } from '../../preact.js';
import { get, supports } from '../../api.js';
import { useLoad } from '../../load.js';
import { amend, link } from '../../url.js';
import { count } from '../../format.js';

export function TimeSlider({ query }) {
  if (!supports('GET', '/v1/graph', 'at')) return null;
  return html`<${Slider} at=${query.at ?? null} />`;
}

function Slider({ at }) {
  const { data } = useLoad((signal) => get('/readyz', {}, signal), []);
  const end = data?.applied_seq ?? Number(at) ?? 1;
  const value = at === null ? end : Number(at);
  // While it is dragged, the graph follows; a question that is no longer wanted is taken back.
  const change = (event) => amend({ at: Number(event.target.value) >= end ? null : event.target.value });
  return html`<div class="card"><div class="row">
    <label class="field grow"><span>As of record ${count(value)} of ${count(end)}${at === null ? ' (now)' : ''}</span>
      <input type="range" min="1" max=${end} value=${value} onInput=${change} /></label>
    ${at !== null && html`<button type="button" onClick=${() => amend({ at: null })}>Back to now</button>
      <a href=${link('ask', null, { at })}>Ask as of then</a>`}</div></div>`;
}
