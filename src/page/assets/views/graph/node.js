// What is known about one node of the graph, and the list of matches when none is chosen (also for those who do not see the drawing).
import { html } from '../../preact.js';
import { get } from '../../api.js';
import { useLoad } from '../../load.js';
import { link } from '../../url.js';
import { ago, count, decimal, duration, percent, plural } from '../../format.js';
import { CAPABILITY, Callee } from '../../parts/callee.js';
import { Empty, Loaded } from '../../parts/states.js';

const SHOWN = 12;
const MATCHES_MAX = 60;

export function Matches({ data, text }) {
  const entries = [
    ...data.tools.map(({ tool, calls }) => ({ id: tool, label: tool, use: calls })),
    ...data.capabilities.map(({ capability, name, usage_count: use }) => ({ id: CAPABILITY + capability, label: name, use })),
  ];
  const found = entries.filter(({ id, label }) => text === '' || `${id} ${label}`.toLowerCase().includes(text)).sort((a, b) => b.use - a.use);
  return html`<h2>${text === '' ? 'Most used' : plural(found.length, 'match', 'matches')}</h2>
    ${found.length === 0 ? html`<${Empty} title="Nothing matches.">Try a part of a name, such as a server.</${Empty}>` : html`<ul class="plain">
      ${found.slice(0, text === '' ? SHOWN : MATCHES_MAX).map(({ id, label, use }) => html`<li key=${id} class="spread">
        <a href=${link('graph', null, { node: id, at: data.at })}>${label}</a><span class="quiet small">${plural(use, 'use')}</span></li>`)}</ul>`}
    ${found.length > MATCHES_MAX && text !== '' && html`<p class="quiet">and ${count(found.length - MATCHES_MAX)} more</p>`}`;
}

export function NodePanel({ id, data, onClose }) {
  const load = useLoad((signal) => get('/v1/related', { tool: id, limit: 100, at: data.at }, signal), [id, data.at]);
  const isCapability = id.startsWith(CAPABILITY);
  const tool = data.tools.find((one) => one.tool === id);
  const capability = data.capabilities.find((one) => CAPABILITY + one.capability === id);
  return html`<div class="spread"><h2 class="wrap">${capability?.name ?? id}</h2><button type="button" onClick=${onClose}>Close</button></div>
    ${tool && html`<p>${tool.description}</p><p
      class="small quiet">${plural(tool.calls, 'call')}, ${percent(tool.success_rate)} success${tool.mean_duration_ms ? `, ${duration(tool.mean_duration_ms)} mean` : ''}
      ${tool.last_used ? `, last used ${ago(tool.last_used)}` : ''}${tool.stub ? '; called, but never registered' : ''}${tool.removed ? '; removed' : ''}</p>
      <p><a href=${link('executions', null, { tool: id })}>Executions that call it</a></p>`}
    ${isCapability && html`<p><a href=${link('capabilities', id.slice(CAPABILITY.length))}>Structure, intents and use</a></p>`}
    <${Loaded} load=${load}>${(related) => html`
      <p class="small quiet">PageRank ${decimal(related.pagerank, 4)}, in a community of ${count(related.community_size ?? 1)}</p>
      <${Related} title="Often called before" rows=${related.related_tools.filter(({ relation }) => relation === 'often_before')} />
      <${Related} title="Often called after" rows=${related.related_tools.filter(({ relation }) => relation === 'often_after')} />
      <${Edges} title="Edges to it" edges=${related.neighbours.in} data=${data} />
      <${Edges} title="Edges from it" edges=${related.neighbours.out} data=${data} />`}</${Loaded}>`;
}

const Related = ({ title, rows }) => rows.length > 0 && html`<h3>${title}</h3><ul
  class="plain">${rows.slice(0, SHOWN).map(({ tool, score }) => html`
  <li key=${tool} class="spread"><${Callee} id=${tool} /><span class="small quiet">${decimal(score)}</span></li>`)}</ul>`;

function Edges({ title, edges, data }) {
  if (edges.length === 0) return null;
  const name = (id) => data.capabilities.find((one) => CAPABILITY + one.capability === id)?.name;
  return html`<details><summary>${title} (${count(edges.length)})</summary><ul class="plain small">${edges.map((edge, at) => html`
    <li key=${at} class="wrap"><${Callee} id=${edge.tool} name=${name(edge.tool)} /> <span
      class="quiet">${edge.kind}, ${edge.source}, seen ${plural(edge.observations, 'time')}</span></li>`)}</ul></details>`;
}
