// A line chart in SVG: a few hundred points, axes with round numbers, a legend. Colours come from the style sheet.
import { html } from '../preact.js';
import { decimal } from '../format.js';

const SIZE = { width: 440, height: 190, left: 46, right: 10, top: 10, bottom: 34 };

// Round numbers that cover a range: 1, 2, 2.5 or 5 times a power of ten apart. Counts are whole.
export function ticks(min, max, wanted = 4, areWhole = false) {
  if (!(max > min)) return [min];
  const rough = (max - min) / wanted;
  const power = Math.max(areWhole ? 1 : 0, 10 ** Math.floor(Math.log10(rough)));
  const step = (areWhole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(min / step) * step;
  const found = [];
  for (let at = first; at <= max + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// `series` are { name, points: [[x, y], ...] }; `x` and `y` may fix a range as [min, max]. `xFormat` gets a number and the range of the
// axis. A single point stands in the middle.
export function LineChart({ series, label, xLabel, yLabel, x = null, y = null, diagonal = false, xFormat = (x) => decimal(x, 0) }) {
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) return null;
  const xs = points.map(([at]) => at);
  const [xMin, xMax] = x ?? [Math.min(...xs), Math.max(...xs)];
  const [yMin, yMax] = y ?? padded(points.map(([, value]) => value));
  const share = (value) => (xMax > xMin ? (value - xMin) / (xMax - xMin) : 0.5);
  const across = (value) => SIZE.left + share(value) * (SIZE.width - SIZE.left - SIZE.right);
  const down = (value) => SIZE.height - SIZE.bottom - ((value - yMin) / (yMax - yMin || 1)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const last = (one) => one.points[one.points.length - 1];
  const summary = series.map((one) => `${one.name}: ${one.points.length} points, last ${decimal(last(one)[1], 3)}`).join('; ');
  return html`<figure class="chart">
    <figcaption>${label}</figcaption>
    <svg viewBox="0 0 ${SIZE.width} ${SIZE.height}" role="img" aria-label="${label}. ${summary}">
      ${ticks(yMin, yMax).map((value) => html`<g key="y${value}" class="axis">
        <line x1=${SIZE.left} x2=${SIZE.width - SIZE.right} y1=${down(value)} y2=${down(value)} />
        <text x=${SIZE.left - 6} y=${down(value) + 4} text-anchor="end">${Number(value.toFixed(4))}</text></g>`)}
      ${labelled(ticks(xMin, xMax, 5, xs.every(Number.isInteger)), (value) => xFormat(value, xMax - xMin)).map(([value, text]) => html`<text key="x${value}" class="tick"
        x=${across(value)} y=${SIZE.height - 18} text-anchor=${anchor(across(value))}>${text}</text>`)}
      ${diagonal && html`<line class="diagonal" x1=${across(xMin)} y1=${down(xMin)} x2=${across(xMax)} y2=${down(xMax)} />`}
      ${series.map((one, at) => html`<g key=${one.name} class="line c${at % 6}">
        <polyline points=${one.points.map(([at, value]) => `${across(at).toFixed(1)},${down(value).toFixed(1)}`).join(' ')} />
        ${one.points.length < 40 && one.points.map(([at, value]) => html`<circle cx=${across(at)} cy=${down(value)} r="2.5" />`)}
      </g>`)}
      <text class="tick" x=${SIZE.width - SIZE.right} y=${SIZE.height - 4} text-anchor="end">${xLabel}</text>
      <text class="tick" x="2" y="9">${yLabel}</text>
    </svg>
    ${series.length > 1 && html`<ul class="legend">${series.map((one, at) => html`<li key=${one.name} class="c${at % 6}">${one.name}</li>`)}
      </ul>`}
  </figure>`;
}

// A text in the middle below its tick, unless it would be cut off at the right.
const anchor = (x) => (x > SIZE.width - SIZE.right - 20 ? 'end' : 'middle');

// Numbers with their texts; one whose text was just said is left out.
export const labelled = (values, format) => values.map((value) => [value, format(value)]).filter(([, text], at, all) => at === 0 || text !== all[at - 1][1]);

function padded(values) {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  const room = (max - min || Math.abs(max) || 1) * 0.08;
  return [min >= 0 ? Math.max(0, min - room) : min - room, max + room];
}

// Small bars without axes: one per second.
export function Spark({ values, label }) {
  const highest = Math.max(...values, 1);
  return html`<svg class="spark" viewBox="0 0 ${values.length} 20" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${values.map((value, at) => html`<rect key=${at} x=${at + 0.1} width="0.8" y=${20 - (value / highest) * 20}
      height=${(value / highest) * 20} />`)}
  </svg>`;
}
