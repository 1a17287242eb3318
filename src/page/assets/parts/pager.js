// A long table, a page at a time, so that ten thousand rows do not slow the browser.
import { html, useEffect, useState } from '../preact.js';
import { count } from '../format.js';

const ROWS = 50;

// `columns` are [title, cell(row), class]. `name` is what a screen reader calls the table.
export function Table({ rows, columns, id, name, rowsShown = ROWS }) {
  const [shown, setShown] = useState(rowsShown);
  useEffect(() => setShown(rowsShown), [name]);
  const visible = rows.slice(0, shown);
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${name}>
    <table aria-label=${name}>
      <thead><tr>${columns.map(([title, , tone]) => html`<th key=${title} scope="col" class=${tone}>${title}</th>`)}</tr></thead>
      <tbody>${visible.map((row) => html`<tr key=${id(row)}>
        ${columns.map(([title, cell, tone]) => html`<td key=${title} class=${tone}>${cell(row)}</td>`)}
      </tr>`)}</tbody>
    </table>
  </div>
  ${rows.length > shown && html`<p><button type="button" onClick=${() => setShown(shown + ROWS * 2)}>
    Show more</button> <span class="quiet">${count(shown)} of ${count(rows.length)}</span></p>`}`;
}
