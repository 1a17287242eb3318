// Loading data for a component: again when its inputs change, after a reconnection, and when asked.
import { useCallback, useEffect, useState } from './preact.js';
import { connection } from './api.js';
import { useStore } from './store.js';

// `ask(signal)` returns a promise. While newer data load, the older ones stay, so that nothing jumps.
export function useLoad(ask, inputs) {
  const [state, setState] = useState({ data: null, problem: null, loading: true });
  const [round, setRound] = useState(0);
  const { generation } = useStore(connection);
  useEffect(() => {
    const aborter = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    Promise.resolve(ask(aborter.signal)).then(
      (data) => aborter.signal.aborted || setState({ data, problem: null, loading: false }),
      (problem) => aborter.signal.aborted || setState((old) => ({ data: old.data, problem, loading: false })),
    );
    return () => aborter.abort();
  }, [...inputs, round, generation]);
  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { ...state, reload };
}

export function useInterval(action, ms) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || action(), ms);
    return () => clearInterval(timer);
  }, [action, ms]);
}

// The value once it has not changed for a while: a search that follows the typing.
export function useSettled(value, ms = 250) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
