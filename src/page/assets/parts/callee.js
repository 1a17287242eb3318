// The name of a tool, of a capability or of the end of an execution, as a link to its place.
import { html } from '../preact.js';
import { link } from '../url.js';

export const CAPABILITY = 'capability:';

export function Callee({ id, name = null }) {
  if (id === 'done') return html`<span>end of the execution</span>`;
  if (id.startsWith(CAPABILITY)) {
    const own = id.slice(CAPABILITY.length);
    return html`<a href=${link('capabilities', own)} title=${id}>${name || `capability ${own.slice(0, 8)}`}</a>`;
  }
  return html`<a class="mono" href=${link('graph', null, { node: id })}>${id}</a>`;
}

export const Execution = ({ id, children = null }) => html`
  <a href=${link('executions', id)}>${children ?? id}</a>`;
