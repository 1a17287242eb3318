// Tools that need attention, and what agents were trying to do.
import { html } from '../../preact.js';
import { ago, count, duration, percent, plural } from '../../format.js';
import { Callee } from '../../parts/callee.js';
import { Empty } from '../../parts/states.js';

const SHOWN = 6;
const UNUSED_SHOWN = 12;

export function ToolHealth({ tools }) {
  const known = tools.filter((tool) => !tool.removed);
  if (known.length === 0) {
    return html`<h2>Tools</h2><${Empty} title="No tools yet.">They appear with the first <code>tool.registered</code> or step that an agent
      publishes, or with the first MCP server: <code>pml servers add NAME -- COMMAND</code></${Empty}>`;
  }
  const by = (value) => (a, b) => value(b) - value(a);
  const failing = known.filter((tool) => tool.errors > 0).sort(by((tool) => tool.errors));
  const slow = known.filter((tool) => tool.mean_duration_ms).sort(by((tool) => tool.mean_duration_ms));
  const used = known.filter((tool) => tool.calls > 0).sort(by((tool) => tool.calls));
  const unused = known.filter((tool) => tool.calls === 0);
  return html`<h2>Tools</h2><div class="grid four">
    <${Ranking} title="Most used" tools=${used} value=${(tool) => plural(tool.calls, 'call')} none="No tool was called yet." />
    <${Ranking} title="Failing" tools=${failing} value=${(tool) => `${percent(tool.errors / tool.calls)} of ${count(tool.calls)}`}
      none="No call failed." />
    <${Ranking} title="Slow" tools=${slow} value=${(tool) => `${duration(tool.mean_duration_ms)} mean`}
      none="No call told how long it took (duration_ms)." />
    <section><h3>Unused</h3>${unused.length === 0 ? html`<p class="quiet">Every tool was called.</p>` : html`
      <p>${plural(unused.length, 'tool')} of ${count(known.length)}: ${unused.slice(0, UNUSED_SHOWN).map((tool, at) => html`
        <span key=${tool.tool}>${at > 0 ? ', ' : ''}<${Callee} id=${tool.tool} /></span>`)}${unused.length > UNUSED_SHOWN ? ' \u2026' : ''}</p>`}
          </section>
  </div>`;
}

function Ranking({ title, tools, value, none }) {
  return html`<section><h3>${title}</h3>
    ${tools.length === 0 ? html`<p class="quiet">${none}</p>` : html`<table aria-label=${title}><tbody>
      ${tools.slice(0, SHOWN).map((tool) => html`<tr key=${tool.tool}><th scope="row"><${Callee} id=${tool.tool} /></th>
        <td class="number" title=${tool.last_used ? `last used ${ago(tool.last_used)}` : ''}>${value(tool)}</td></tr>`)}
    </tbody></table>`}
  </section>`;
}

export function Intents({ capabilities }) {
  const used = capabilities.filter(({ intents }) => intents.length > 0).sort((a, b) => b.usage_count - a.usage_count);
  return html`<h2>What agents were trying to do</h2>
    ${used.length === 0 ? html`<${Empty} title="Nothing was learnt yet.">A capability appears when an execution with two or more steps
      succeeded.</${Empty}>` : html`<table aria-label="What agents were trying to do"><tbody>
      ${used.slice(0, SHOWN).map((capability) => html`<tr key=${capability.capability}>
        <td class="wrap"><div class="clamp">${capability.intents[capability.intents.length - 1]}</div>
          <span class="small"><${Callee} id="capability:${capability.capability}" name=${capability.name} /></span></td>
        <td class="number">${plural(capability.usage_count, 'time')}<br /><span
          class="small quiet">${percent(capability.success_rate)} success</span></td>
      </tr>`)}</tbody></table>`}`;
}
