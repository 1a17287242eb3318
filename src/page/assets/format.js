// Numbers with units, times and names, as text.
const whole = new Intl.NumberFormat('en');
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

export const count = (n) => whole.format(n);

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.01 ? 2 : share === 1 ? 0 : 1)} %`;

export function decimal(n, digits = 2) {
  if (n === 0) return '0';
  return Math.abs(n) < 10 ** -digits ? n.toExponential(1) : n.toFixed(digits);
}

export function duration(ms) {
  if (ms === undefined || ms === null) return '';
  if (ms < 1) return `${Math.round(ms * 1000)} \u00b5s`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

export function bytes(n) {
  if (n < 1000) return `${n} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = n / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

const STEPS = [[60, 'second', 1], [3600, 'minute', 60], [86_400, 'hour', 3600], [Infinity, 'day', 86_400]];

export function ago(time, now = Date.now()) {
  const seconds = (new Date(time).getTime() - now) / 1000;
  const [, unit, size] = STEPS.find(([below]) => Math.abs(seconds) < below);
  return relative.format(Math.round(seconds / size), unit);
}

export function clock(time) {
  const at = new Date(time);
  const text = at.toLocaleTimeString('en-GB');
  return at.toDateString() === new Date().toDateString() ? text : `${at.toLocaleDateString('en-CA')} ${text}`;
}

// A time on an axis that spans `range` milliseconds.
export function timeTick(x, range) {
  const at = new Date(x);
  if (range > 2 * 86_400_000) return at.toLocaleDateString('en-CA', { month: '2-digit', day: '2-digit' });
  const seconds = range > 0 && range < 600_000 ? { second: '2-digit' } : {};
  return at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', ...seconds });
}

// `pml.step.finished` is `step.finished` to a reader.
export const kindName = (type) => type.replace(/^pml\./, '');

export const signalName = (signal) => signal.replaceAll('_', ' ');

export const shortId = (id) => (id.length > 16 ? `${id.slice(0, 14)}\u2026` : id);
