// A directed acyclic graph drawn in layers from top to bottom: plans, structures of capabilities, data flow of an execution.
import { html } from '../preact.js';

const BOX = { width: [150, 330], height: 40 };
const GAP = { x: 14, y: 28 };
// Pixels of a character of a label, and around it.
const LABEL = { character: 7.3, around: 22 };

// All boxes are as wide as the longest label needs.
export function boxWidth(labels) {
  const wanted = Math.ceil(Math.max(0, ...labels.map(({ length }) => length)) * LABEL.character) + LABEL.around;
  return Math.min(BOX.width[1], Math.max(BOX.width[0], wanted));
}

// The layer of each node: one more than the highest of those it depends on. A cycle, which a damaged structure might have, ends at the
// number of nodes.
export function layersOf(size, edges) {
  const layers = new Array(size).fill(0);
  for (let round = 0; round < size; round += 1) {
    let changed = false;
    for (const [from, to] of edges) {
      if (layers[to] <= layers[from] && layers[from] + 1 < size) {
        layers[to] = layers[from] + 1;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return layers;
}

// Places nodes: y by layer, x by the mean place of the nodes before them, so that few edges cross.
export function place(size, edges, boxed = BOX.width[0]) {
  const layers = layersOf(size, edges);
  const rows = [];
  layers.forEach((layer, node) => (rows[layer] ??= []).push(node));
  const column = new Array(size).fill(0);
  for (const row of rows) {
    const wish = (node) => {
      const before = edges.filter(([, to]) => to === node).map(([from]) => column[from]);
      return before.length ? before.reduce((sum, at) => sum + at, 0) / before.length : node;
    };
    const wishes = new Map(row.map((node) => [node, wish(node)]));
    row.sort((a, b) => wishes.get(a) - wishes.get(b));
    row.forEach((node, at) => { column[node] = at - (row.length - 1) / 2; });
  }
  const widest = Math.max(...rows.map((row) => row.length), 1);
  const middle = (widest * (boxed + GAP.x) - GAP.x) / 2;
  const points = layers.map((layer, node) => ({
    x: middle + column[node] * (boxed + GAP.x) - boxed / 2 + 1, y: layer * (BOX.height + GAP.y) + 1,
  }));
  return { points, width: middle * 2 + 2, height: rows.length * (BOX.height + GAP.y) - GAP.y + 2 };
}

// `nodes` are { label, note, tone, href }; `edges` are pairs of positions.
export function Dag({ nodes, edges, label }) {
  const boxed = boxWidth(nodes.map((node) => node.label));
  const { points, width, height } = place(nodes.length, edges, boxed);
  return html`<div class="dag" tabindex="0" role="group" aria-label=${label}>
    <svg viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label=${describe(nodes, edges)}>
      ${edges.map(([from, to]) => html`<path key="${from}-${to}" class="edge" d=${curve(points[from], points[to], boxed)} />`)}
      ${nodes.map((node, at) => html`<${Box} key=${at} node=${node} point=${points[at]} width=${boxed} />`)}
    </svg>
  </div>`;
}

function Box({ node, point, width }) {
  const most = Math.floor((width - LABEL.around) / LABEL.character);
  const text = node.label.length > most ? `\u2026${node.label.slice(-most + 1)}` : node.label;
  return html`<g class="box ${node.tone ?? ''}" transform="translate(${point.x} ${point.y})">
    <title>${node.label}${node.note ? `: ${node.note}` : ''}</title>
    <rect width=${width} height=${BOX.height} rx="6" />
    <text x="10" y=${node.note ? 17 : 25}>${text}</text>
    ${node.note && html`<text class="note" x="10" y="32">${node.note}</text>`}
  </g>`;
}

function curve(from, to, boxed) {
  const [x1, y1, x2, y2] = [from.x + boxed / 2, from.y + BOX.height, to.x + boxed / 2, to.y];
  const bend = Math.max(14, (y2 - y1) / 2);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

function describe(nodes, edges) {
  const sentence = ({ label }, at) => {
    const before = edges.filter(([, to]) => to === at).map(([from]) => nodes[from].label);
    return before.length ? `${label} after ${before.join(' and ')}` : label;
  };
  return nodes.map(sentence).join('; ');
}
