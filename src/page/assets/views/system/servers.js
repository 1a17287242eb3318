// The MCP servers whose tools pml calls: their state, and tools that wait for approval because their definition changed.
import { html } from '../../preact.js';
import { get, getAll, post, useScopes } from '../../api.js';
import { useInterval, useLoad } from '../../load.js';
import { count, plural } from '../../format.js';
import { Action, Badge } from '../../parts/controls.js';
import { Callee } from '../../parts/callee.js';
import { Command, Empty, Loaded } from '../../parts/states.js';

const REFRESH_MS = 5000;
const TONES = { ready: 'good', failed: 'bad', connecting: 'accent' };

export function Servers() {
  const { can } = useScopes();
  const load = useLoad((signal) => get('/v1/servers', {}, signal), []);
  useInterval(load.reload, REFRESH_MS);
  const reload = async () => {
    const { added, removed, changed } = await post('/v1/servers/reload');
    load.reload();
    return `${plural(added.length, 'server')} added, ${count(removed.length)} removed, ${count(changed.length)} changed`;
  };
  return html`<${Loaded} load=${load} what="Loading servers">${({ servers }) => html`
    ${servers.length === 0 && html`<div class="card"><${Empty} title="No MCP server yet.">
      <p>pml calls the tools of MCP servers for agents. Add one, or take over those that an agent has:</p>
      <${Command}>pml servers add files -- npx -y @modelcontextprotocol/server-filesystem .
pml servers import ~/.claude.json</${Command}></${Empty}></div>`}
    ${servers.map((server) => html`<${Server} key=${server.server} server=${server} reload=${load.reload} />`)}
    ${can('admin') && html`<p></p><${Action} label="Read the servers file again" act=${reload} />`}`}</${Loaded}>`;
}

function Server({ server, reload }) {
  return html`<section class="card"><div class="spread"><h2>${server.server}</h2><${Badge} tone=${TONES[server.state] ?? ''}>${server.state}
    </${Badge}></div>
    ${server.problem && html`<p class="bad wrap">${server.problem}</p>`}
    <dl class="facts"><dt>Target</dt><dd class="mono">${server.target}</dd>
      ${server.implementation && html`<dt>Program</dt><dd>${server.implementation}, protocol ${server.protocol}</dd>`}
      <dt>Tools</dt><dd>${server.tools.length === 0 ? 'none' : server.tools.map((tool) => html`<${Callee} key=${tool} id=${tool} /> `)}</dd>
      ${server.disabled_tools.length > 0 && html`<dt>Switched off</dt><dd>${server.disabled_tools.join(', ')}</dd>`}
      ${server.skipped.length > 0 && html`<dt>Not taken</dt><dd>${server.skipped.map(({ tool, reason }) => `${tool}: ${reason}`).join('; ')}
        </dd>`}</dl>
    ${server.quarantined.length > 0 && html`<${Quarantine} tools=${server.quarantined} reload=${reload} />`}
    ${server.stderr.length > 0 && html`<details><summary>Last lines of its standard error</summary><pre tabindex="0">${server.stderr.join('\n')}
      </pre></details>`}</section>`;
}

// An approval names the definition that was shown, so that a change in between is not approved unseen.
function Quarantine({ tools, reload }) {
  const { can } = useScopes();
  const load = useLoad(async (signal) => (await getAll('/v1/tools', 'tools', 10_000, signal)).entries.filter(({ tool }) => tools.includes(tool)), [tools.join()]);
  const approve = (tool, definition) => async () => {
    await post('/v1/servers/approve', { tool, definition });
    reload();
    return 'Approved.';
  };
  return html`<h3>In quarantine: their definition changed</h3><${Loaded}
    load=${load}>${(found) => found.map(({ tool, description, input_schema: schema, quarantined }) => html`
    <div class="result" key=${tool}><strong class="mono">${tool}</strong><div class="grid">
      <div><p class="quiet">Before</p><p class="wrap">${description}</p><pre tabindex="0">${JSON.stringify(schema, null, 2)}</pre></div>
      <div><p class="quiet">Now</p><p class="wrap">${quarantined?.description}</p><pre
        tabindex="0">${JSON.stringify(quarantined?.input_schema, null, 2)}</pre></div></div>
      ${can('admin') && quarantined && html`<${Action} label="Approve" confirm="Let agents call it as shown?"
        act=${approve(tool, quarantined.definition)} />`}
    </div>`)}</${Loaded}>`;
}
