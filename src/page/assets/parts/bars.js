// Scores as bars: one bar per signal, to the right of the middle if it speaks for the outcome and to the left if it speaks against it.
import { html } from '../preact.js';
import { decimal, signalName } from '../format.js';

const SHOWN_MAX = 8;

// `signals` are { name, adds, detail }. Each bar has its number, so the picture is never the only source.
export function SignalBars({ signals, label, shown = SHOWN_MAX }) {
  const sorted = [...signals].filter(({ adds }) => adds !== 0).sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
  const rows = sorted.slice(0, shown);
  if (rows.length === 0) return html`<p class="quiet">No signal says anything about it.</p>`;
  const widest = Math.abs(rows[0].adds);
  const isSigned = rows.some(({ adds }) => adds < 0);
  return html`<table class="bars ${isSigned ? 'signed' : ''}" aria-label=${label}>
    <tbody>${rows.map(({ name, adds, detail }) => html`<tr key=${name} title=${detail}>
      <th scope="row">${signalName(name)}</th>
      <td class="track" aria-hidden="true"><span class=${adds < 0 ? 'against' : 'for'} style=${barStyle(adds / widest, isSigned)}></span></td>
      <td class="number">${adds > 0 && isSigned ? '+' : ''}${decimal(adds)}</td>
    </tr>`)}</tbody>
  </table>
  ${sorted.length > rows.length && html`<p class="quiet small">and ${sorted.length - rows.length} weaker signals</p>`}`;
}

function barStyle(share, isSigned) {
  const room = isSigned ? 50 : 100;
  const width = Math.abs(share) * room;
  const start = isSigned ? (share < 0 ? room - width : room) : 0;
  return { left: `${start}%`, width: `${width}%` };
}

// A share between 0 and 1, with a mark for the threshold that it is compared with.
export function Meter({ share, threshold = null, label }) {
  const part = Math.max(0, Math.min(1, share));
  return html`<span class="meter" role="img" aria-label=${label}>
    <span class="fill" style=${{ width: `${part * 100}%` }}></span>
    ${threshold !== null && html`<span class="mark" style=${{ left: `${threshold * 100}%` }}></span>`}
  </span>`;
}
