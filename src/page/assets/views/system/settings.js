// The settings in force, without secrets, and the roles of this process with their leases.
import { html } from '../../preact.js';
import { get } from '../../api.js';
import { useInterval, useLoad } from '../../load.js';
import { amend } from '../../url.js';
import { Badge, Search } from '../../parts/controls.js';
import { Table } from '../../parts/pager.js';
import { Loaded } from '../../parts/states.js';

const REFRESH_MS = 5000;
const TONES = { active: 'good', waiting: 'warn', absent: '' };

// Keys as they are written in the file: `section.key`.
export const flat = (settings, prefix = '') => Object.entries(settings).flatMap(([key, value]) => (
  value !== null && typeof value === 'object' && !Array.isArray(value) ? flat(value, `${prefix}${key}.`) : [[`${prefix}${key}`, value]]));

export function Settings({ query }) {
  const load = useLoad((signal) => get('/v1/system', {}, signal), []);
  useInterval(load.reload, REFRESH_MS);
  const words = (query.q ?? '').toLowerCase();
  return html`<${Loaded} load=${load} what="Loading settings">${({ settings, roles }) => html`
    <section class="card"><h2>Roles of this process</h2><${Table} name="Roles" rows=${roles} id=${({ role }) => role} columns=${ROLES} /></section>
    <section class="card"><h2>Settings in force</h2>
      <${Search} label="Search settings" value=${query.q ?? ''} onInput=${(q) => amend({ q })} />
      <${Table} name="Settings" rowsShown=${500} id=${([key]) => key} columns=${KEYS}
        rows=${flat(settings).filter(([key]) => key.includes(words))} />
      <p class="small quiet">Secrets are hidden. <code>pml config default</code> prints every key with its meaning.</p></section>`}</${Loaded}>`;
}

const ROLES = [
  ['Role', ({ role }) => role],
  ['State', ({ state, held_by: holder }) => html`<${Badge} tone=${TONES[state]}>${state}</${Badge}> ${holder ? `held by ${holder}` : ''}`],
  ['Without it', ({ missing_means: means }) => means, 'wrap'],
];
const KEYS = [
  ['Key', ([key]) => html`<span class="mono">${key}</span>`],
  ['Value', ([, value]) => html`<span class="mono">${JSON.stringify(value)}</span>`, 'wrap'],
];
