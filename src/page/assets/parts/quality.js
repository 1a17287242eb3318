// How well predictions did over a stretch of time: the curves, and the calibration plot.
import { html, useState } from '../preact.js';
import { get } from '../api.js';
import { useInterval, useLoad } from '../load.js';
import { count, decimal, percent, timeTick } from '../format.js';
import { LineChart } from './chart.js';
import { Choice } from './controls.js';
import { Empty, Loaded } from './states.js';

const REFRESH_MS = 5000;
const STRETCHES = [['hour', 'last hour'], ['day', 'last day'], ['all', 'all of the time']];

export function QualityOverTime({ calibration = false }) {
  const [over, setOver] = useState('hour');
  const load = useLoad((signal) => get('/v1/quality', { over }, signal), [over]);
  useInterval(load.reload, REFRESH_MS);
  return html`<${Choice} label="Over the" value=${over} options=${STRETCHES} onChange=${setOver} />
    <${Loaded} load=${load}>${(answer) => (answer.spans.length === 0
      ? html`<${Empty} title="No prediction was scored in this time.">Predictions are made while executions with a session run, and scored by
        the step that comes next.</${Empty}>`
      : html`<${Curves} answer=${answer} />${calibration && html`<${Calibration} bins=${answer.calibration} />`}`)}</${Loaded}>`;
}

function Curves({ answer }) {
  const line = (name, member) => ({ name, points: answer.spans.map((span) => [Date.parse(span.start), span[member]]) });
  const n = answer.spans.reduce((sum, span) => sum + span.n, 0);
  const mean = (member) => answer.spans.reduce((sum, span) => sum + span[member] * span.n, 0) / n;
  return html`<p>${count(n)} scored: <strong>${percent(mean('hit1'))}</strong> right at first place, ${percent(mean('hit3'))} among three,
      log-loss ${decimal(mean('log_loss'))}.</p>
    <${LineChart} label="Hit rate and calibration error" y=${[0, 1]} xLabel="" yLabel="" xFormat=${timeTick}
      series=${[line('first is right', 'hit1'), line('among three', 'hit3'), line('calibration error', 'calibration_error')]} />`;
}

function Calibration({ bins }) {
  return html`<${LineChart} label="Calibration: what was stated against what came" y=${[0, 1]} x=${[0, 1]} diagonal=${true} xLabel="stated probability"
    yLabel="came" xFormat=${(x) => decimal(x, 1)} series=${[{ name: 'predictions', points: bins.map(({ stated, observed }) => [stated, observed]) }]} />
    <p class="small quiet">On the line, probabilities can be taken at their word. ${bins.map(({ from, to, n }) => `${percent(from)} to ${percent(to)}: ${count(n)}`).join('; ')}.</p>`;
}
