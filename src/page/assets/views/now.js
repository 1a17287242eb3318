// Now: what the agents do, what is predicted for them and whether it came, and which tools need attention.
import { html, useCallback, useEffect, useMemo, useReducer } from '../preact.js';
import { connection, getAll } from '../api.js';
import { useStore } from '../store.js';
import { useInterval, useLoad } from '../load.js';
import { follow } from '../data/stream.js';
import { SHOWN_KINDS, tailSeq } from '../data/log.js';
import { newId } from '../data/publish.js';
import { SECONDS, initial, reduce, settled } from '../data/live.js';
import { clock, count, decimal, kindName, percent, plural } from '../format.js';
import { Spark } from '../parts/chart.js';
import { Badge } from '../parts/controls.js';
import { QualityOverTime } from '../parts/quality.js';
import { Command, Empty, Loaded } from '../parts/states.js';
import { Callee, Execution } from '../parts/callee.js';
import { Intents, ToolHealth } from './now/tools.js';

const RECENT_RECORDS = 300;
// The server collects records for this long: many pages, or many records, cost it little then.
const EVERY_MS = 500;
const REFRESH_MS = 10_000;
const TOOLS_MAX = 10_000;

export function Now() {
  const live = useLive();
  return html`<h1>Now</h1>
    <div class="columns">
      <div><${Rate} live=${live} /><${UnderWay} live=${live} /></div>
      <div><${Quality} live=${live} /><${Feed} live=${live} /></div>
    </div>
    <${Tools} />`;
}

// Predictions are read from the log, not from their own stream: a subscriber there makes the server predict, and record, for executions
// that nobody asked about, and looking should not write.
function useLive() {
  const [state, dispatch] = useReducer(reduce, initial);
  useEffect(() => {
    let stop = null;
    let ended = false;
    const onState = (name) => dispatch({ open: name === 'open' });
    const start = async () => {
      const tail = await tailSeq();
      if (ended) return;
      const from = Math.max(1, tail - RECENT_RECORDS + 1);
      const onEvent = ({ id, data }) => dispatch({ record: JSON.parse(data), isNew: Number(id) > tail, at: Date.now() });
      stop = follow(`/v1/events?kinds=${SHOWN_KINDS.join(',')}&every_ms=${EVERY_MS}`, { from, onEvent, onState });
    };
    start().catch(() => dispatch({ open: false }));
    return () => {
      ended = true;
      stop?.();
    };
  }, []);
  useInterval(useCallback(() => dispatch({ tick: Date.now() }), []), 1000);
  return state;
}

function Rate({ live }) {
  const { online } = useStore(connection);
  const lastTen = live.perSecond.slice(-11, -1);
  const rate = lastTen.reduce((sum, n) => sum + n, 0) / 10;
  const values = [...new Array(SECONDS - live.perSecond.length).fill(0), ...live.perSecond];
  return html`<section class="card" aria-labelledby="rate">
    <div class="spread"><h2 id="rate">Events</h2>
      <${Badge} tone=${live.open && online ? 'good' : 'warn'}>${live.open && online ? 'live' : 'connecting'}</${Badge}></div>
    <div class="big">${decimal(rate, 1)} <span class="small quiet">events/s, mean of 10 s</span></div>
    <${Spark} values=${values} label="Events in each of the last ${SECONDS} seconds" />
    <p class="quiet small">the last ${SECONDS} seconds</p>
  </section>`;
}

function Quality({ live }) {
  const seen = live.executions.flatMap(settled).filter(({ came }) => came !== null);
  const hits = seen.filter(({ isHit }) => isHit).length;
  return html`<section class="card fixed" aria-labelledby="quality">
    <h2 id="quality">How well it predicts</h2>
    ${seen.length > 0 && html`<p>${plural(seen.length, 'prediction')} settled in the executions below, <strong>${percent(hits / seen.length)}
      </strong> right at first place.</p>`}
    <${QualityOverTime} />
  </section>`;
}

export function Windows({ model }) {
  if (model.scored === 0) {
    return html`<${Empty} title="No prediction was scored yet.">Predictions are made while executions with a session run, and scored by
      the step that comes next.</${Empty}>`;
  }
  const filled = model.windows.filter(({ n }, at) => n > 0 && (at === 0 || n > model.windows[at - 1].n));
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Quality of served predictions"><table
    aria-label="Quality of served predictions">
    <thead><tr><th scope="col">last</th><th scope="col" class="number">first is right</th><th scope="col" class="number">among three</th>
      <th scope="col" class="number">log-loss</th><th scope="col" class="number">calibration error</th></tr></thead>
    <tbody>${filled.map((window) => html`<tr key=${window.last}><th scope="row">${count(window.n)}</th>
      <td class="number">${percent(window.hit1)}</td><td class="number">${percent(window.hit3)}</td>
      <td class="number">${decimal(window.log_loss)}</td><td class="number">${decimal(window.calibration_error, 3)}</td></tr>`)}</tbody>
  </table></div>`;
}

function UnderWay({ live }) {
  return html`<section class="card" aria-labelledby="under-way">
    <h2 id="under-way">Executions</h2>
    ${live.executions.length === 0 ? html`<${NothingYet} />` : html`<ul class="live">
      ${live.executions.slice(0, 12).map((execution) => html`<li key=${execution.id}><${LiveExecution} execution=${execution} /></li>`)}
    </ul>`}
  </section>`;
}

function LiveExecution({ execution }) {
  const { id, intent, events, success } = execution;
  const steps = events.filter(({ step }) => step !== undefined);
  const predictions = settled(execution);
  const waiting = success === undefined ? predictions.find(({ isKnown, came }) => isKnown && came === null) : undefined;
  const verdicts = predictions.filter(({ came }) => came !== null);
  return html`<div class="spread"><span class="wrap"><${Execution} id=${id}>${intent ?? id}</${Execution}></span>
      ${success === undefined ? html`<${Badge} tone="accent">under way</${Badge}>`
        : html`<${Badge} tone=${success ? 'good' : 'bad'}>${success ? 'done' : 'failed'}</${Badge}>`}</div>
    <ol class="chain" aria-label="Steps">
      ${steps.map((step) => html`<li key=${step.step} class=${step.success ? '' : 'bad'}><${Callee}
        id=${step.came} />${step.success ? '' : ' failed'}</li>`)}
      ${waiting && html`<li class="next">next: <${Callee} id=${waiting.item} /> ${percent(waiting.p)}</li>`}
    </ol>
    ${verdicts.length > 0 && html`<p class="small quiet">Predicted: ${verdicts.map((verdict, at) => html`<span
      key=${verdict.id}>${at > 0 ? ', ' : ''}${verdict.item}${' '}${percent(verdict.p)}${' '}
      <span class=${verdict.isHit ? 'good' : 'bad'}>${verdict.isHit ? 'hit' : 'miss'}</span></span>`)}</p>`}`;
}

function NothingYet() {
  return html`<${Empty} title="No execution among the latest events.">
    <p>Agents publish what they do, and it appears here within a second. Try it:</p>
    <${Command}>${useMemo(example, [])}</${Command}>
    <p>Or connect an agent by MCP: <code>claude mcp add --transport http pml ${location.origin}/mcp</code></p>
  </${Empty}>`;
}

// Two events with ids of their own, so that a person who tries it twice publishes once.
function example() {
  const event = (type, data) => JSON.stringify({ specversion: '1.0', id: newId(), source: 'me', type: `pml.${type}`, data });
  return [
    `curl ${location.origin}/v1/events -H 'Content-Type: application/x-ndjson' --data-binary @- <<'END'`,
    event('execution.started', { execution: 'e1', intent: 'Zip the reports', session: 's1' }),
    event('step.finished', { execution: 'e1', step: 's1', tool: 'fs:list', success: true }),
    'END',
  ].join('\n');
}

function Feed({ live }) {
  return html`<section class="card" aria-labelledby="feed">
    <h2 id="feed">Latest events</h2>
    ${live.feed.length === 0 ? html`<p class="quiet">Events appear here as they are recorded.</p>` : html`<ol class="plain feed">
      ${live.feed.slice(0, 15).map((record) => html`<li key=${record.seq}><span class="spread"><strong>${kindName(record.type)}</strong>
        <span class="small quiet">${record.seq}, ${clock(record.time)}</span></span><span class="cut">${subject(record.data)}</span></li>`)}
          </ol>`}
  </section>`;
}

const subject = ({ tool, intent, execution, version, name }) => tool ?? intent ?? execution ?? version ?? name ?? '';

function Tools() {
  const tools = useLoad((signal) => getAll('/v1/tools', 'tools', TOOLS_MAX, signal), []);
  const capabilities = useLoad((signal) => getAll('/v1/capabilities', 'capabilities', 2000, signal), []);
  useInterval(tools.reload, REFRESH_MS * 3);
  return html`<div class="card"><${Loaded} load=${tools} what="Loading tools">${({ entries }) => html`<${ToolHealth} tools=${entries} />`}
    </${Loaded}></div>
    <div class="card"><${Loaded} load=${capabilities} what="Loading intents">${({ entries }) => html`<${Intents} capabilities=${entries} />`}
      </${Loaded}></div>`;
}
