// Server-sent events over fetch, because EventSource cannot send an API key. Reconnects by itself and resumes after the last event.
import { send } from '../api.js';

const RETRY_MS = [500, 1000, 2000, 5000];

// Calls `onEvent({ id, event, data })` for every event and `onState('open' | 'waiting')`, until the returned function is called.
export function follow(path, { from = null, onEvent, onState }) {
  const aborter = new AbortController();
  let lastId = null;
  let failures = 0;

  async function connect() {
    const headers = { accept: 'text/event-stream' };
    if (lastId !== null) headers['last-event-id'] = lastId;
    const start = from !== null && lastId === null ? `${path.includes('?') ? '&' : '?'}from=${from}` : '';
    const response = await send(path + start, { headers, signal: aborter.signal });
    failures = 0;
    onState('open');
    await readEvents(response.body, (event) => {
      if (event.id !== null) lastId = event.id;
      onEvent(event);
    });
  }

  async function run() {
    while (!aborter.signal.aborted) {
      try {
        await connect();
      } catch (problem) {
        if (aborter.signal.aborted || problem.status === 401 || problem.status === 403) return;
      }
      if (aborter.signal.aborted) return;
      onState('waiting');
      await new Promise((done) => setTimeout(done, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
      failures += 1;
    }
  }
  run();
  return () => aborter.abort();
}

async function readEvents(body, onEvent) {
  const parser = createParser(onEvent);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parser(value);
  }
}

// Takes pieces of text as they come and calls `onEvent` for each complete event. Comment lines only keep the connection alive.
export function createParser(onEvent) {
  let rest = '';
  let pending = { id: null, event: 'message', data: '' };
  return (piece) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (pending.data !== '') onEvent(pending);
        pending = { id: null, event: 'message', data: '' };
        continue;
      }
      const colon = line.indexOf(':');
      const name = line.slice(0, colon);
      const value = line.slice(colon + 1).replace(/^ /, '');
      if (name === 'id') pending.id = value;
      if (name === 'event') pending.event = value;
      if (name === 'data') pending.data += value;
    }
  };
}
