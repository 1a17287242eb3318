// Graph: tools and capabilities with their edges, searchable; a chosen node with its neighbours.
import { html, useMemo } from '../preact.js';
import { get, getAll, supports } from '../api.js';
import { useLoad, useSettled } from '../load.js';
import { amend } from '../url.js';
import { count } from '../format.js';
import { Choice, Search } from '../parts/controls.js';
import { Empty, Loaded } from '../parts/states.js';
import { KINDS, NODES_MAX, buildGraph } from '../graph/model.js';
import { communitiesOf } from '../graph/communities.js';
import { DASHES, KIND_COLOURS } from '../graph/draw.js';
import { GraphCanvas } from '../graph/canvas.js';
import { Matches, NodePanel } from './graph/node.js';
import { TimeSlider } from './graph/time.js';

const EDGES_MAX = 20_000;
// Tools, and capabilities, that can be searched.
const NODES_LOADED_MAX = 50_000;

export function Graph({ route: { query } }) {
  const { at = null } = query;
  const past = supports('GET', '/v1/graph', 'at') && at ? { at } : {};
  const load = useLoad(async (signal) => {
    const [graph, tools, capabilities] = await Promise.all([
      get('/v1/graph', { limit: EDGES_MAX, measures: true, ...past }, signal), getAll('/v1/tools', 'tools', NODES_LOADED_MAX, signal),
      getAll('/v1/capabilities', 'capabilities', NODES_LOADED_MAX, signal),
    ]);
    return { ...graph, tools: tools.entries, capabilities: capabilities.entries, at: past.at ?? null };
  }, [past.at]);
  return html`<h1>Graph</h1><${Loaded} load=${load} what="Loading the graph">${(data) => (data.tools.length === 0
    ? html`<${Empty} title="No tools yet.">They appear with the first step that an agent publishes, or with the first MCP server.</${Empty}>`
    : html`<${Drawn} data=${data} query=${query} />`)}</${Loaded}>`;
}

function Drawn({ data, query }) {
  const { q = '', node = null, level = 'all', hide = '' } = query;
  const hidden = new Set(hide.split(',').filter(Boolean));
  const kinds = KINDS.filter((kind) => !hidden.has(kind) && data.edges.some((edge) => edge.kind === kind));
  const isBeyond = node !== null && data.tools.length + data.capabilities.length > NODES_MAX;
  const graph = useMemo(() => buildGraph(data, { kinds: new Set(kinds), level: level === 'all' ? null : Number(level), focus: isBeyond ? node : null }),
    [data, hide, level, isBeyond ? node : null]);
  const community = useMemo(() => communitiesOf(data.measured), [data]);
  const text = useSettled(q.trim().toLowerCase());
  const found = useMemo(() => (text === '' ? null : new Set(graph.nodes.flatMap((one, at) => (`${one.id} ${one.label}`.toLowerCase().includes(text) ? [at] : [])))), [graph, text]);
  const chosen = node === null ? null : graph.index.get(node) ?? null;
  const everything = data.tools.length + data.capabilities.length;
  const label = `${count(graph.nodes.length)} of ${count(everything)} nodes, ${count(graph.links.length)} edges`;
  const choose = (at) => amend({ node: at === null ? null : graph.nodes[at].id });
  return html`<${Filters} data=${data} query=${query} hidden=${hidden} />
    <${TimeSlider} query=${query} />
    <div class="graph-area">
      <${GraphCanvas} graph=${graph} community=${community} chosen=${chosen} found=${found} onChoose=${choose} label=${label} />
      <aside class="card" aria-label="Details" tabindex="0">${node !== null
        ? html`<${NodePanel} key=${node} id=${node} data=${data} onClose=${() => amend({ node: null })} />`
        : html`<${Matches} data=${data} text=${text} />`}</aside>
    </div>`;
}

function Filters({ data, query, hidden }) {
  const levels = [...new Set(data.capabilities.map(({ level }) => level))].sort((a, b) => a - b);
  const present = KINDS.filter((kind) => data.edges.some((edge) => edge.kind === kind));
  const toggle = (kind) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    amend({ hide: [...next].join(',') });
  };
  return html`<div class="card"><div class="row">
      <div class="grow"><${Search} label="Search tools and capabilities" value=${query.q ?? ''} onInput=${(q) => amend({ q })} /></div>
      ${levels.length > 1 && html`<${Choice} label="Capabilities of level" value=${query.level ?? 'all'}
        options=${[['all', 'any'], ...levels.map((level) => [String(level), String(level)])]}
        onChange=${(level) => amend({ level: level === 'all' ? null : level })} />`}
    </div>
    <ul class="edge-legend" aria-label="Edges shown">${present.map((kind) => html`<li key=${kind}><label class="check">
      <input type="checkbox" checked=${!hidden.has(kind)} onChange=${() => toggle(kind)} />
      <svg viewBox="0 0 26 8" aria-hidden="true" class=${colourClass(kind)}><line x1="0" x2="26" y1="4" y2="4"
        stroke-dasharray=${DASHES[kind].join(' ')} /></svg>${MEANING[kind]}</label></li>`)}
      <li class="quiet">pale: not yet observed often; circles are tools, squares capabilities, colours communities</li></ul>
  </div>`;
}

const colourClass = (kind) => (KIND_COLOURS[kind] === '--line' ? 'quiet' : KIND_COLOURS[kind].slice(2));
const MEANING = {
  provides: 'output used by', sequence: 'came before', dependency: 'must run before', conditional: 'came before, sometimes',
  alternative: 'may replace', contains: 'capability calls',
};
