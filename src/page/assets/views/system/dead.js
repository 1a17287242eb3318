// Dead letters: events that were refused, why, and publishing them again.
import { html, useState } from '../../preact.js';
import { get } from '../../api.js';
import { useLoad } from '../../load.js';
import { redrive } from '../../data/publish.js';
import { bytes, clock, plural } from '../../format.js';
import { Action } from '../../parts/controls.js';
import { Empty, Loaded } from '../../parts/states.js';

const PAGE = 100;

export function DeadLetters() {
  const [after, setAfter] = useState(null);
  const load = useLoad((signal) => get('/v1/dead', { limit: PAGE, after }, signal), [after]);
  const again = (numbers) => async () => {
    const { accepted, duplicate, refused, results } = await redrive(numbers);
    load.reload();
    const why = results.find(({ error }) => error)?.error.message;
    return `${accepted} accepted, ${duplicate} known already, ${refused} refused again${why ? `: ${why}` : ''}`;
  };
  return html`<div class="card"><${Loaded} load=${load} what="Loading dead letters">${({ dead, next }) => (dead.length === 0
    ? html`<${Empty} title="No dead letters.">An event that is refused is kept here with the reason, so that it can be published again.</${Empty}>`
    : html`<div class="spread"><h2>${plural(dead.length, 'refused event')}${next ? ' on this page' : ''}</h2>
        <${Action} label="Publish all again" confirm="Publish ${dead.length} events again?"
          act=${again(dead.filter((letter) => letter.cut_from === undefined).map(({ number }) => number))} /></div>
      <ol class="plain">${dead.map((letter) => html`<li key=${letter.number} class="result">
        <div class="spread"><strong>${letter.reason}: ${letter.field}</strong><span
          class="small quiet">number ${letter.number}, ${clock(letter.at)}, by ${letter.origin}</span></div>
        <p class="wrap">${letter.message}</p>
        <details><summary>The event</summary><pre tabindex="0">${pretty(letter.event)}</pre></details>
        ${letter.cut_from === undefined ? html`<${Action} label="Publish again" act=${again([letter.number])} />`
          : html`<p class="quiet small">Cut from ${bytes(letter.cut_from)}: it cannot be published again.</p>`}
      </li>`)}</ol>
      ${next && html`<button type="button" onClick=${() => setAfter(next)}>Next page</button>`}`)}</${Loaded}></div>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
