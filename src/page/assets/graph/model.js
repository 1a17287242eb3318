// The graph that is drawn: which nodes of the server's answer, their size, their community. Pure.
export const KINDS = ['provides', 'sequence', 'dependency', 'conditional', 'alternative', 'contains'];
export const NODES_MAX = 2000;
const CAPABILITY = 'capability:';

// Takes the strongest edges of the chosen kinds until `max` nodes are there; tools without an edge come last, if there is room.
export function buildGraph({ edges, tools, capabilities, at = null }, { kinds, level = null, max = NODES_MAX, focus = null }) {
  const names = new Map(capabilities.map((one) => [CAPABILITY + one.capability, one]));
  const uses = new Map(tools.map((one) => [one.tool, one]));
  const index = new Map();
  const nodes = [];
  const isWanted = (id) => level === null || !id.startsWith(CAPABILITY) || names.get(id)?.level === level;
  const add = (id) => {
    if (index.has(id)) return index.get(id);
    if (nodes.length >= max || !isWanted(id)) return -1;
    const capability = names.get(id);
    const use = capability ? capability.usage_count : uses.get(id)?.calls ?? 0;
    nodes.push({ id, label: capability ? capability.name : id, isCapability: id.startsWith(CAPABILITY), use, radius: 3 + Math.min(9, Math.sqrt(use) * 0.6) });
    index.set(id, nodes.length - 1);
    return nodes.length - 1;
  };
  if (focus) add(focus);
  const links = [];
  for (const { from, to, kind, source, weight, observations } of focusFirst(edges, focus)) {
    if (!kinds.has(kind) || from === to) continue;
    const [a, b] = [add(from), add(to)];
    if (a >= 0 && b >= 0) links.push({ source: a, target: b, kind, origin: source, weight, observations });
  }
  // At a moment of the past, a tool without an edge may not have been there yet.
  if (at === null) for (const { tool, removed } of tools) if (!removed) add(tool);
  return { nodes, links, index };
}

const focusFirst = (edges, focus) => (focus
  ? [...edges.filter(({ from, to }) => from === focus || to === focus), ...edges.filter(({ from, to }) => from !== focus && to !== focus)]
  : edges);

export const neighbours = (graph, at) => graph.links.filter((edge) => edge.source === at || edge.target === at);
