// What happens now, folded from the stream of events. Pure: `reduce(state, message)` returns a new state.
const EXECUTIONS_MAX = 30;
const FEED_MAX = 40;
export const SECONDS = 60;

export const initial = { executions: [], feed: [], perSecond: [], second: 0, open: false };

// Messages are { record, isNew, at }, { tick: at } and { open }.
export function reduce(state, message) {
  if (message.record) {
    const happened = message.isNew ? message.at : Date.parse(message.record.recordedat);
    return withRecord(counted(withTime(state, message.at), happened), message.record);
  }
  if (message.tick) return withTime(state, message.tick);
  return { ...state, open: message.open };
}

// Events by second; `perSecond` ends with the present one.
function withTime(state, at) {
  const second = Math.floor(at / 1000);
  if (second === state.second) return state;
  const passed = state.second ? Math.min(SECONDS, Math.max(0, second - state.second)) : SECONDS;
  return { ...state, second, perSecond: [...state.perSecond, ...new Array(passed).fill(0)].slice(-SECONDS) };
}

// Counts an event in the second in which it arrived, or was recorded if that was before the page was opened.
function counted(state, happened) {
  const at = state.perSecond.length - 1 - (state.second - Math.floor(happened / 1000));
  if (!(at in state.perSecond)) return state;
  const perSecond = [...state.perSecond];
  perSecond[at] += 1;
  return { ...state, perSecond };
}

function withRecord(state, record) {
  const { type, data, id, seq, time } = record;
  const next = { ...state, feed: [record, ...state.feed].slice(0, FEED_MAX) };
  switch (type) {
    case 'pml.execution.started':
      return change(next, data.execution, ({ events }) => ({ intent: data.intent, started: time, seq, events: [...events, { id, came: null }] }));
    case 'pml.step.finished':
      return change(next, data.execution, ({ events }) => ({ events: [...events, { id, came: data.tool, step: data.step, success: data.success }] }));
    case 'pml.execution.finished':
      return change(next, data.execution, ({ events }) => ({ success: data.success, events: [...events, { id, came: 'done' }] }));
    case 'pml.trace.completed':
      return change(next, data.execution, (execution) => ({ success: execution.success ?? data.success, intent: data.intent }));
    case 'pml.prediction.served':
      return change(next, data.execution, ({ predictions }) => ({
        predictions: [...predictions, { id: data.prediction, cause: record.causation, ...data.ranked[0] }],
      }));
    default:
      return next;
  }
}

// Changes one execution, or begins it; the one that changed comes first.
function change(state, id, changes) {
  const found = state.executions.find((execution) => execution.id === id) ?? { id, events: [], predictions: [] };
  const changed = { ...found, ...changes(found) };
  const others = state.executions.filter((execution) => execution.id !== id);
  return { ...state, executions: [changed, ...others].slice(0, EXECUTIONS_MAX) };
}

// The predictions of an execution with what came after the record that caused each; `came` is null while nothing did. The record of a
// prediction may follow the next step, so the cause decides and not the order.
export function settled({ events, predictions }) {
  return predictions.map(({ id, cause, item, p }) => {
    const at = events.findIndex((event) => event.id === cause);
    const next = at < 0 ? undefined : events[at + 1];
    return { id, item, p, isKnown: at >= 0, came: next?.came ?? null, isHit: next?.came === item };
  });
}
