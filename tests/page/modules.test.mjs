// The modules of the page that decide something and touch no document: run by `node --test`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

// What the modules expect of a browser when they are loaded.
globalThis.location = { hash: '#ask?intent=zip+it', origin: 'http://127.0.0.1' };
globalThis.window = { addEventListener() {} };

const assets = '../../src/page/assets';
const { link, parseFragment } = await import(`${assets}/url.js`);
const { boxWidth, layersOf, place } = await import(`${assets}/parts/dag.js`);
const { labelled, ticks } = await import(`${assets}/parts/chart.js`);
const { createParser } = await import(`${assets}/data/stream.js`);
const { initial, reduce, settled } = await import(`${assets}/data/live.js`);
const { newId } = await import(`${assets}/data/publish.js`);
const { buildGraph } = await import(`${assets}/graph/model.js`);
const { communitiesOf } = await import(`${assets}/graph/communities.js`);
const { successOverTime } = await import(`${assets}/views/capabilities/one.js`);
const { flat } = await import(`${assets}/views/system/settings.js`);
const { ago, bytes, duration, percent, timeTick } = await import(`${assets}/format.js`);

test('a link carries view, id and query, and reads back as they were', () => {
  const query = { intent: 'zip & mail: 100 %', after: 'fs:list,zip:pack' };
  const fragment = link('executions', 'a/b c?d', { ...query, empty: '', none: null });
  assert.deepEqual(parseFragment(fragment), { view: 'executions', id: 'a/b c?d', query });
  assert.deepEqual(parseFragment(''), { view: 'now', id: null, query: {} });
  assert.deepEqual(parseFragment('#executions/%E0%A4%A'), { view: 'executions', id: '%E0%A4%A', query: {} });
});

test('a node stands below all that it depends on, and a cycle ends', () => {
  assert.deepEqual(layersOf(4, [[0, 1], [1, 3], [0, 2], [2, 3]]), [0, 1, 1, 2]);
  assert.equal(layersOf(2, [[0, 1], [1, 0]]).every((layer) => layer < 2), true);
  const { points, width, height } = place(3, [[0, 2], [1, 2]]);
  assert.equal(points[0].y, points[1].y);
  assert.ok(points[2].y > points[0].y && points[0].x !== points[1].x);
  assert.ok(points.every(({ x, y }) => x >= 0 && y >= 0 && x < width && y < height));
});

test('axes have round numbers inside their range', () => {
  assert.deepEqual(ticks(0, 1), [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(ticks(1.15, 1.98), [1.25, 1.5, 1.75]);
  assert.deepEqual([ticks(1, 12, 5, true), ticks(1, 3, 5, true)], [[5, 10], [1, 2, 3]]);
  assert.deepEqual(ticks(0.07, 0.31), [0.1, 0.2, 0.3]);
  assert.deepEqual(ticks(5, 5), [5]);
});

test('an axis says no text twice in a row, and times to the second where they are near', () => {
  const minute = Date.parse('2026-11-17T10:00:00');
  const times = [0, 20_000, 40_000].map((ms) => minute + ms);
  assert.deepEqual(labelled(times, (x) => timeTick(x, 3_600_000)).map(([, text]) => text), ['10:00']);
  assert.deepEqual(labelled(times, (x) => timeTick(x, 40_000)).map(([, text]) => text), ['10:00:00', '10:00:20', '10:00:40']);
  assert.equal(timeTick(minute, 5 * 86_400_000), '11-17');
});

test('boxes are wide enough for their labels, within bounds', () => {
  assert.ok(boxWidth(['travel:business_trip_ticket_reservation']) > 39 * 7);
  assert.deepEqual([boxWidth([]), boxWidth(['x'.repeat(500)])], [150, 330]);
});

test('events are read from pieces cut anywhere', () => {
  const text = ': hello\n\nid: 7\nevent: step.finished\ndata: {"a":1}\n\nevent: lagged\ndata: {"missed":2}\n\n';
  for (let size = 1; size < 20; size += 1) {
    const found = [];
    const parse = createParser((event) => found.push(event));
    for (let at = 0; at < text.length; at += size) parse(text.slice(at, at + size));
    assert.deepEqual(found, [
      { id: '7', event: 'step.finished', data: '{"a":1}' }, { id: null, event: 'lagged', data: '{"missed":2}' },
    ]);
  }
});

const record = (seq, type, data, causation) => ({ seq, id: `r${seq}`, type: `pml.${type}`, time: '2026-11-17T10:00:00Z', data, causation });
const fold = (records) => records.reduce((state, one) => reduce(state, { record: one, isNew: true, at: 1_000_000 }), initial);

test('a prediction is settled by what came after its cause, also if its record came late', () => {
  const predicted = (seq, cause, item) => record(seq, 'prediction.served', { execution: 'e', prediction: `p${seq}`, ranked: [{ item, p: 0.9 }] }, cause);
  const state = fold([
    record(1, 'execution.started', { execution: 'e', intent: 'zip' }),
    record(2, 'step.finished', { execution: 'e', step: 's1', tool: 'fs:list', success: true }),
    predicted(3, 'r1', 'fs:list'), predicted(4, 'r2', 'mail:send'),
    record(5, 'step.finished', { execution: 'e', step: 's2', tool: 'zip:pack', success: true }),
    predicted(6, 'r5', 'done'),
  ]);
  const [execution] = state.executions;
  assert.deepEqual(settled(execution).map(({ came, isHit }) => [came, isHit]), [['fs:list', true], ['zip:pack', false], [null, false]]);
  const ended = reduce(state, { record: record(7, 'execution.finished', { execution: 'e', success: true }), isNew: true, at: 1_000_000 });
  assert.equal(settled(ended.executions[0])[2].isHit, true);
});

test('what is live is bounded, and seconds without events count as zero', () => {
  const many = fold(Array.from({ length: 500 }, (_, at) => record(at, 'execution.started', { execution: `e${at}`, intent: 'x' })));
  assert.equal(many.executions.length, 30);
  assert.equal(many.feed.length, 40);
  assert.equal(many.executions[0].id, 'e499');
  const later = reduce(many, { tick: 1_003_000 });
  assert.deepEqual(later.perSecond.slice(-4), [500, 0, 0, 0]);
  assert.equal(reduce(later, { tick: 9_000_000 }).perSecond.length, 60);
  const before = (recordedat) => reduce(initial, { record: { ...record(1, 'tool.removed', {}), recordedat }, isNew: false, at: 5000 }).perSecond;
  assert.deepEqual(before('1970-01-01T00:00:03Z').slice(-3), [1, 0, 0]);
  assert.ok([before(undefined), before('1969-01-01T00:00:00Z')].every((seconds) => seconds.length === 60 && !seconds.includes(1)));
});

test('an id is a ULID: its time first, never twice', () => {
  assert.match(newId(), /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  assert.equal(newId(0).slice(0, 10), '0000000000');
  assert.ok(newId(1_000) < newId(2_000));
  assert.equal(new Set(Array.from({ length: 1000 }, () => newId(5))).size, 1000);
});

test('the drawn graph keeps its limit, the strongest edges and the node that was asked for', () => {
  const tools = Array.from({ length: 50 }, (_, at) => ({ tool: `s:t${at}`, calls: at, removed: false }));
  const edges = tools.slice(1).map(({ tool }, at) => ({ from: 's:t0', to: tool, kind: at % 2 ? 'provides' : 'sequence', source: 'observed', weight: 1 - at / 100, observations: 1 }));
  const data = { edges, tools, capabilities: [{ capability: 'c1', name: 'zip', level: 1, usage_count: 3 }] };
  const small = buildGraph(data, { kinds: new Set(['provides', 'sequence']), max: 10 });
  assert.deepEqual([small.nodes.length, small.links.length], [10, 9]);
  assert.ok(small.index.has('s:t1') && !small.index.has('s:t49'));
  assert.ok(buildGraph(data, { kinds: new Set(['provides', 'sequence']), max: 10, focus: 's:t49' }).index.has('s:t49'));
  const one = buildGraph(data, { kinds: new Set(['provides']) });
  assert.ok(one.links.every(({ kind }) => kind === 'provides'));
  assert.equal(one.nodes.length, 50);
});

test('numbers have units', () => {
  assert.deepEqual([duration(0.25), duration(999), duration(1500), duration(7_200_000)], ['250 \u00b5s', '999 ms', '1.5 s', '2.0 h']);
  assert.deepEqual([bytes(999), bytes(1500), bytes(25_000_000)], ['999 B', '1.5 kB', '25 MB']);
  assert.deepEqual([percent(1), percent(0.5), percent(0.004)], ['100 %', '50.0 %', '0.40 %']);
  assert.equal(ago('2026-11-17T10:00:00Z', Date.parse('2026-11-17T10:02:00Z')), '2 minutes ago');
});

test('in the past, only nodes with an edge are known to have been there', () => {
  const data = { edges: [{ from: 's:a', to: 's:b', kind: 'provides', source: 'observed', weight: 1, observations: 1 }],
    tools: ['s:a', 's:b', 's:later'].map((tool) => ({ tool, calls: 1, removed: false })), capabilities: [], at: '7' };
  assert.equal(buildGraph(data, { kinds: new Set(['provides']) }).nodes.length, 2);
  assert.equal(buildGraph({ ...data, at: null }, { kinds: new Set(['provides']) }).nodes.length, 3);
});

test('communities are numbered by the rank of their first member', () => {
  const measured = [{ node: 'a', community: 'x' }, { node: 'b', community: 'y' }, { node: 'c', community: 'x' }];
  assert.deepEqual([...communitiesOf(measured)], [['a', 0], ['b', 1], ['c', 0]]);
  assert.equal(communitiesOf(null).size, 0);
});

test('success over time goes from the earliest to the latest runs, and leaves out those under way', () => {
  const run = (minute, outcome) => ({ started: `2026-11-17T10:${String(minute).padStart(2, '0')}:00Z`, outcome });
  const latestFirst = [run(40, 'open'), ...Array.from({ length: 24 }, (_, at) => run(30 - at, at < 12 ? 'success' : 'failure'))];
  const points = successOverTime(latestFirst);
  assert.deepEqual(points.map(([, share]) => share), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
  assert.ok(points.every(([at], index) => index === 0 || at > points[index - 1][0]));
});

test('settings are shown by the keys of the file', () => {
  assert.deepEqual(flat({ data_dir: 'x', http: { workers: 2, keys: [] } }), [['data_dir', 'x'], ['http.workers', 2], ['http.keys', []]]);
});
