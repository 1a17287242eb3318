// Draws the graph on a canvas. Edge kinds differ in colour and dash, sources in strength, so that neither rests on colour alone.
export const DASHES = { provides: [], sequence: [5, 4], dependency: [9, 3], conditional: [2, 4], alternative: [1, 3], contains: [] };
export const KIND_COLOURS = { provides: '--c0', sequence: '--c5', dependency: '--c2', conditional: '--c1', alternative: '--c3', contains: '--line' };
const COMMUNITY_COLOURS = ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5'];
const LABELS_MAX = 120;

export function readPalette(element) {
  const style = getComputedStyle(element);
  return new Proxy({}, { get: (_, name) => style.getPropertyValue(name).trim() });
}

// `scene` has graph, places, community, chosen, found (a set of node positions or null), camera { x, y, scale } and size.
export function draw(context, scene, palette) {
  const { graph, places, camera, width, height, ratio } = scene;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width * ratio, height * ratio);
  if (!places) return;
  context.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, ratio * (width / 2 + camera.x), ratio * (height / 2 + camera.y));
  const near = scene.chosen === null ? null : nearSet(graph, scene.chosen);
  drawEdges(context, scene, palette, near);
  drawNodes(context, scene, palette, near);
  drawLabels(context, scene, palette, near);
}

export function nearSet(graph, at) {
  const near = new Set([at]);
  for (const { source, target } of graph.links) {
    if (source === at) near.add(target);
    if (target === at) near.add(source);
  }
  return near;
}

function drawEdges(context, { graph, places, camera, chosen, found }, palette, near) {
  const colours = Object.fromEntries(Object.entries(KIND_COLOURS).map(([kind, name]) => [kind, palette[name]]));
  for (const { source, target, kind, origin, weight } of graph.links) {
    const isNear = near === null ? found === null || (found.has(source) && found.has(target)) : source === chosen || target === chosen;
    context.globalAlpha = (origin === 'observed' ? 0.75 : 0.35) * (isNear ? 1 : 0.12);
    context.strokeStyle = colours[kind];
    context.lineWidth = (0.5 + weight * 1.2) / Math.sqrt(camera.scale);
    context.setLineDash(DASHES[kind]);
    context.beginPath();
    context.moveTo(places[source * 2], places[source * 2 + 1]);
    context.lineTo(places[target * 2], places[target * 2 + 1]);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function drawNodes(context, { graph, places, community, chosen, found }, palette, near) {
  const colours = COMMUNITY_COLOURS.map((name) => palette[name]);
  const [plain, ring, text] = [palette['--quiet'], palette['--card'], palette['--text']];
  graph.nodes.forEach((node, at) => {
    const number = community.get(node.id);
    const [x, y] = [places[at * 2], places[at * 2 + 1]];
    context.globalAlpha = (near === null || near.has(at)) && (found === null || found.has(at)) ? 1 : 0.25;
    context.fillStyle = number === undefined ? plain : colours[number % colours.length];
    context.beginPath();
    if (node.isCapability) context.rect(x - node.radius * 0.8, y - node.radius * 0.8, node.radius * 1.6, node.radius * 1.6);
    else context.arc(x, y, node.radius, 0, Math.PI * 2);
    context.fill();
    context.strokeStyle = at === chosen ? text : ring;
    context.lineWidth = at === chosen ? 2.5 : 1;
    context.stroke();
  });
  context.globalAlpha = 1;
}

function drawLabels(context, { graph, places, camera, found, chosen }, palette, near) {
  const wanted = graph.nodes.map((node, at) => ({ node, at }))
    .filter(({ at }) => (near !== null ? near.has(at) : found === null || found.has(at)))
    .sort((a, b) => (b.at === chosen) - (a.at === chosen) || a.node.isCapability - b.node.isCapability || b.node.use - a.node.use)
    .slice(0, Math.min(LABELS_MAX, Math.round(40 * camera.scale + 20)));
  const size = 11.5 / camera.scale;
  context.font = `${size}px system-ui, sans-serif`;
  context.textAlign = 'center';
  context.lineWidth = 3 / camera.scale;
  context.strokeStyle = palette['--card'];
  context.fillStyle = palette['--text'];
  const taken = [];
  for (const { node, at } of wanted) {
    const name = node.isCapability ? `${node.label.slice(0, 28)}${node.label.length > 28 ? '\u2026' : ''}` : node.label;
    const [x, y] = [places[at * 2], places[at * 2 + 1] - node.radius - size * 0.4];
    const half = context.measureText(name).width / 2;
    // A label that would cover one of a more used node is left out.
    if (taken.some((other) => Math.abs(other.y - y) < size * 1.3 && Math.abs(other.x - x) < half + other.half)) continue;
    taken.push({ x, y, half });
    context.strokeText(name, x, y);
    context.fillText(name, x, y);
  }
}

// The node under a point of the canvas, or null.
export function nodeAt({ graph, places, camera, width, height }, px, py) {
  if (!places) return null;
  const [x, y] = [(px - width / 2 - camera.x) / camera.scale, (py - height / 2 - camera.y) / camera.scale];
  let best = null;
  let nearest = Infinity;
  graph.nodes.forEach((node, at) => {
    const distance = Math.hypot(places[at * 2] - x, places[at * 2 + 1] - y) - node.radius;
    if (distance < 6 / camera.scale && distance < nearest) [best, nearest] = [at, distance];
  });
  return best;
}

// The camera that shows all nodes, or those of a set.
export function fit(places, width, height, only = null) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let at = 0; at < places.length; at += 2) {
    if (only !== null && !only.has(at / 2)) continue;
    left = Math.min(left, places[at]);
    right = Math.max(right, places[at]);
    top = Math.min(top, places[at + 1]);
    bottom = Math.max(bottom, places[at + 1]);
  }
  const scale = Math.min(3, 0.92 * Math.min(width / (right - left + 40), height / (bottom - top + 40)));
  return { scale, x: -((left + right) / 2) * scale, y: -((top + bottom) / 2) * scale };
}
