// What a view shows while it loads, when there is nothing, and when something failed.
import { html } from '../preact.js';

export const Loading = ({ what = 'Loading' }) => html`<p class="quiet" role="status">${what}\u2026</p>`;

// `children` say what to do next.
export const Empty = ({ title, children }) => html`
  <div class="empty"><p><strong>${title}</strong></p><div>${children}</div></div>`;

export function Problem({ problem, retry }) {
  const text = problem.message || String(problem);
  return html`<div class="problem" role="alert">
    <p>${text}</p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

// Renders `children(data)` once there are data; a failed reload shows its problem above the older data.
export function Loaded({ load, what, children }) {
  if (load.data === null) {
    return load.problem ? html`<${Problem} problem=${load.problem} retry=${load.reload} />` : html`<${Loading} what=${what} />`;
  }
  return html`${load.problem && html`<${Problem} problem=${load.problem} retry=${load.reload} />`}${children(load.data)}`;
}

// Commands that a person can copy.
export const Command = ({ children }) => html`<pre class="command" tabindex="0"><code>${children}</code></pre>`;
