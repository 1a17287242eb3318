// Loss and quality of training epoch by epoch: of the run under way, of the latest run, and of one that was opened.
import { html } from '../../preact.js';
import { LineChart } from '../../parts/chart.js';

const isKnown = (value) => value !== undefined && value !== null;
const line = (points, member) => points.filter((point) => isKnown(point[member])).map((point) => [point.epoch, point[member]]);

// `groups` are { name, points } with the loss, and with the measure on intents held out as far as there is one.
function Charts({ groups }) {
  const series = (member) => groups.map(({ name, points }) => ({ name, points: line(points, member) })).filter(({ points }) => points.length > 0);
  return html`<div class="grid">
    <${LineChart} label="Loss" series=${series('loss')} xLabel="epoch" yLabel="" />
    <${LineChart} label="Quality on intents held out" series=${series('validation')} xLabel="epoch" yLabel="" />
  </div>`;
}

const byStage = (points, name) => {
  const groups = new Map();
  for (const point of points) groups.set(name(point), [...(groups.get(name(point)) ?? []), point]);
  return [...groups].map(([name, points]) => ({ name, points }));
};

// The two stages of the run under way that came last.
export const RunningCurves = ({ running }) => html`<section class="card"><h2>The run under way</h2>
  <${Charts} groups=${byStage(running.curve, ({ part, stage }) => `${part} ${stage}`).slice(-2)} /></section>`;

// Every part of the latest run, while its number of epochs was chosen.
export function LatestCurves({ runs }) {
  const through = runs.find(({ curve }) => curve.length > 0)?.through_seq;
  const groups = runs.filter((run) => run.through_seq === through && run.curve.length > 0)
    .map(({ part, curve }) => ({ name: part, points: curve.filter(({ stage }) => stage === 'validation') }))
    .filter(({ points }) => points.length > 0);
  return groups.length === 0 ? null : html`<section class="card"><h2>Curves of the latest training</h2>
    <p class="quiet">Each part while its number of epochs was chosen on intents held out. A run in the list below shows its own.</p>
    <${Charts} groups=${groups} /></section>`;
}

export const CurvesOfRun = ({ run }) => (run.curve.length === 0 ? null
  : html`<${Charts} groups=${byStage(run.curve, ({ stage }) => (stage === 'fit' ? 'on all runs' : 'with some held out'))} />`);
