// The moment of the log that a question is asked about. Offered only by servers whose questions take it.
import { html } from '../../preact.js';
import { post, supports } from '../../api.js';
import { amend } from '../../url.js';
import { Field } from '../../parts/controls.js';

const hasPast = () => supports('POST', '/v1/predict', 'at');

// Asks a question; `at` goes into the address, the rest into the body.
export const askAt = (path, { at = null, ...body }, signal) => post(path, body, signal, at === null ? {} : { at });

export const atQuery = (query) => (hasPast() && query.at ? { at: query.at } : {});

export function AtField({ query }) {
  if (!hasPast()) return null;
  return html`<div class="row moment"><${Field} label="As of record or time (empty: now)">
    <input value=${query.at ?? ''} onChange=${(event) => amend({ at: event.target.value.trim() })} placeholder="118 or 2026-11-17T10:00:00Z" />
  </${Field}></div>`;
}
