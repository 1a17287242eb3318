// Buttons, tabs, search boxes and badges.
import { html, useState } from '../preact.js';

// A button for an action that takes a while: it shows that it is under way, and the problem if it failed. With `confirm`, the first
// press asks and the second acts.
export function Action({ label, confirm = null, act, done = null, tone = '' }) {
  const [state, setState] = useState({ phase: 'idle', text: null });
  const press = async () => {
    if (confirm && state.phase !== 'asked') {
      setState({ phase: 'asked', text: confirm });
      return;
    }
    setState({ phase: 'busy', text: null });
    try {
      const answer = await act();
      setState({ phase: 'idle', text: typeof answer === 'string' ? answer : done });
    } catch (problem) {
      setState({ phase: 'failed', text: problem.message });
    }
  };
  return html`<span class="action">
    <button type="button" class=${tone} disabled=${state.phase === 'busy'} onClick=${press}>
      ${state.phase === 'asked' ? `Yes, ${label.toLowerCase()}` : label}
    </button>
    ${state.phase === 'asked' && html`<button type="button" onClick=${() => setState({ phase: 'idle', text: null })}>No</button>`}
    <span class=${state.phase === 'failed' ? 'bad' : 'quiet'} role="status">${state.text}</span>
  </span>`;
}

// Links that choose a part of a view. `items` are [name, href, label].
export const Tabs = ({ items, current, label }) => html`<nav class="tabs" aria-label=${label}>
  ${items.map(([name, href, text]) => html`<a key=${name} href=${href} aria-current=${name === current ? 'page' : null}>${text}</a>`)}
</nav>`;

export const Badge = ({ tone = '', children }) => html`<span class="badge ${tone}">${children}</span>`;

export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

export const Choice = ({ label, value, options, onChange }) => html`<${Field} label=${label}>
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([name, text]) => html`<option key=${name} value=${name} selected=${name === value}>${text}</option>`)}
  </select>
</${Field}>`;

export const Search = ({ label, value, onInput, placeholder = '' }) => html`<${Field} label=${label}>
  <input type="search" value=${value} placeholder=${placeholder} autocomplete="off" spellcheck=${false}
    onInput=${(event) => onInput(event.target.value)} />
</${Field}>`;
