// Reading the log: by query, and backwards by ranges until there is enough; a person decides whether to read further back.
import { get, send } from '../api.js';

const RANGE_RECORDS = 4000;
const RANGES_MAX = 25;
// What a person reads: all kinds but vectors and parameters, which are more than half of a log.
export const SHOWN_KINDS = [
  'tool.registered', 'tool.removed', 'tool.quarantined', 'tool.approved', 'tool.output_inferred', 'template.loaded', 'execution.started',
  'step.started', 'step.finished', 'execution.finished', 'trace.completed', 'prediction.served', 'feedback.given', 'capability.declared',
  'capability.renamed', 'capability.merged', 'capability.approved', 'capability.retired',
  'model.trained', 'model.promoted', 'model.rolled_back', 'log.forked',
];

export const tailSeq = async (signal) => (await get('/readyz', {}, signal)).tail_seq;

// The records that the query of `GET /v1/events` selects.
export async function readRecords(query, signal) {
  const response = await send(`/v1/events?${new URLSearchParams(query)}`, { signal });
  const lines = (await response.text()).split('\n');
  return lines.filter(Boolean).map((line) => JSON.parse(line));
}

// Reads backwards from `before` until `enough(found)` or the beginning, at most 100,000 records. Returns what was found, the newest first,
// and the position to go on from (null at the beginning of the log).
export async function readBackwards({ before, kinds, wanted = () => true, enough, onRange = () => {}, signal }) {
  const found = [];
  let end = before - 1;
  for (let round = 0; round < RANGES_MAX && end >= 1; round += 1) {
    const start = Math.max(1, end - RANGE_RECORDS + 1);
    const records = await readRecords({ from: start, to: end, kinds: kinds.join(',') }, signal);
    found.push(...records.filter(wanted).reverse());
    end = start - 1;
    onRange(end);
    if (enough(found)) break;
  }
  return { found, before: end >= 1 ? end + 1 : null };
}
