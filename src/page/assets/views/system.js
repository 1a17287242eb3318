// System: health, the log, snapshots, dead letters, MCP servers, settings and roles.
import { html } from '../preact.js';
import { get, useScopes } from '../api.js';
import { useInterval, useLoad } from '../load.js';
import { link } from '../url.js';
import { count } from '../format.js';
import { Badge, Tabs } from '../parts/controls.js';
import { Table } from '../parts/pager.js';
import { Loaded } from '../parts/states.js';
import { LogTail } from './system/log.js';
import { DeadLetters } from './system/dead.js';
import { Snapshots } from './system/snapshots.js';
import { Servers } from './system/servers.js';
import { Settings } from './system/settings.js';

const REFRESH_MS = 5000;

export function System({ route }) {
  const { can } = useScopes();
  const parts = [
    ['health', 'Health', Health, 'query'], ['log', 'Log', LogTail, 'query'], ['snapshots', 'Snapshots', Snapshots, 'query'],
    ['dead', 'Dead letters', DeadLetters, 'admin'], ['servers', 'MCP servers', Servers, 'query'],
    ['settings', 'Settings and roles', Settings, 'admin'],
  ].filter(([, , , scope]) => can(scope));
  const [name, , Part] = parts.find(([own]) => own === route.id) ?? parts[0];
  const items = parts.map(([own, title]) => [own, own === 'health' ? link('system') : link('system', own), title]);
  return html`<h1>System</h1><${Tabs} label="Parts of the system" items=${items} current=${name} /><${Part} query=${route.query} />`;
}

function Health() {
  const ready = useLoad(async (signal) => ({ ...(await get('/readyz', {}, signal)), ...(await get('/healthz', {}, signal)) }), []);
  const state = useLoad((signal) => get('/v1/state', {}, signal), []);
  useInterval(ready.reload, REFRESH_MS);
  return html`<div class="grid">
    <section class="card"><h2>This process</h2><${Loaded} load=${ready}>${(health) => html`<dl class="facts">
      <dt>State</dt><dd><${Badge} tone=${health.ready ? 'good' : 'bad'}>${health.ready ? 'ready' : 'not ready'}</${Badge}> ${health.reason ?? ''}
        </dd>
      <dt>Version</dt><dd>${health.version}</dd>
      <dt>Log ends at</dt><dd>record ${count(health.tail_seq)}</dd>
      <dt>Folded to</dt><dd>record ${count(health.applied_seq)}${health.behind ? `, ${count(health.behind)} behind` : ''}</dd>
      ${health.waiting && html`<dt>Role ${health.waiting.for}</dt><dd>held by ${health.waiting.held_by}</dd>`}
    </dl>`}</${Loaded}></section>
    <section class="card"><h2>What it knows</h2><${Loaded} load=${state}>${(known) => html`<dl class="facts">
      ${[['tools', 'Tools'], ['capabilities', 'Capabilities'], ['edges', 'Edges between tools'], ['intents', 'Intents'], ['traces', 'Executions kept'],
        ['open_executions', 'Executions under way'], ['templates', 'Workflow templates'], ['duplicates', 'Duplicates left out'], ['late', 'Late events']]
        .map(([member, title]) => html`<dt key="t${member}">${title}</dt><dd key=${member}>${count(known[member])}</dd>`)}
      <dt>Texts with a vector</dt><dd>${count(known.texts_embedded)} of ${count(known.texts)}, by ${known.embedding_model ?? 'no model'}</dd>
      <dt>Digest</dt><dd class="mono">${known.digest}</dd><dt>Version of the fold</dt><dd>${known.fold}</dd>
    </dl>`}</${Loaded}></section>
    <section class="card"><h2>Records by kind</h2><${Loaded} load=${state}>${(known) => html`<${Table} name="Records by kind"
      id=${([kind]) => kind}
      rows=${Object.entries(known.events).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1])}
      columns=${[['Kind', ([kind]) => kind], ['Records', ([, n]) => count(n), 'number']]} />`}</${Loaded}></section>
  </div>`;
}
