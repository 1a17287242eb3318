// How often predictions of one outcome were right: the mean of its Beta posterior, which moves its threshold.
import { html } from '../../preact.js';
import { decimal, percent } from '../../format.js';
import { Callee } from '../../parts/callee.js';
import { Table } from '../../parts/pager.js';
import { Empty } from '../../parts/states.js';

const COLUMNS = [
  ['Outcome', ({ item }) => html`<${Callee} id=${item} />`, 'wrap'],
  ['Right', ({ alpha, beta }) => percent(alpha / (alpha + beta)), 'number'],
  ['Evidence', ({ alpha, beta }) => decimal(alpha + beta, 1), 'number'],
];

export const Judged = ({ thresholds }) => html`<section class="card"><h2>Right or wrong, by outcome</h2>
  ${thresholds.length === 0 ? html`<${Empty} title="No outcome was judged yet.">The next step of an execution judges a prediction, and so does
    feedback.</${Empty}>` : html`<${Table} rows=${thresholds} id=${({ item }) => item} name="Outcomes judged" rowsShown=${10}
      columns=${COLUMNS} />`}
</section>`;
