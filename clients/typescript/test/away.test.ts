import { strict as assert } from "node:assert";
import { test } from "node:test";
import { Pml, Unreachable, type Options } from "pml-client";
import { PATIENCE_MS, Proxy, eventually, records, trace } from "./support.js";

async function away(options: Options, work: (pml: Pml, proxy: Proxy) => Promise<void>): Promise<void> {
  const proxy = await Proxy.open();
  const pml = new Pml({ url: proxy.url, timeoutMs: 1_000, ...options });
  try {
    await work(pml, proxy);
  } finally {
    await pml.close(0);
    proxy.close();
  }
}

function report(pml: Pml): Promise<string> {
  return pml.run("survive", async (run) => {
    await run.step("a:b", {}, () => undefined);
    return run.id;
  });
}

test("events wait while pml is away and arrive when it is back", () =>
  away({}, async (pml, proxy) => {
    proxy.mode = "refuse";
    const id = await report(pml);
    assert.equal(await pml.flush(50), false);
    assert.equal(pml.stats().waiting, 4);
    proxy.mode = "forward";
    assert.equal(await pml.flush(PATIENCE_MS), true);
    assert.deepEqual([pml.stats().sent, (await trace(id)).steps.length], [4, 1]);
  }));

test("a lost answer is followed by the same events, and each is recorded once", () =>
  away({}, async (pml, proxy) => {
    proxy.mode = "lose";
    const id = await report(pml);
    await eventually(() => proxy.lost >= 2 || undefined);
    proxy.mode = "forward";
    assert.equal(await pml.flush(PATIENCE_MS), true);
    await trace(id);
    const kinds = (await records(id)).map((record) => record.type).filter((kind) => !kind.endsWith("completed"));
    assert.deepEqual(kinds.sort(), ["pml.execution.finished", "pml.execution.started", "pml.step.finished", "pml.step.started"]);
    assert.deepEqual([pml.stats().sent, pml.stats().refused], [4, 0]);
  }));

test("a full buffer drops and counts, and nothing waits for pml", () =>
  away({ bufferEvents: 10, predictionTimeoutMs: 1_000 }, async (pml, proxy) => {
    proxy.mode = "hang";
    const begun = Date.now();
    await pml.run(
      "never wait",
      async (run) => {
        for (let at = 0; at < 100; at += 1) {
          assert.equal((await run.step("a:b", {}, () => undefined)).prediction, undefined);
        }
      },
      { predict: true },
    );
    assert.ok(Date.now() - begun < 30_000, "one prediction is waited for, then none for a while");
    const { waiting, dropped } = pml.stats();
    assert.deepEqual({ waiting, dropped }, { waiting: 10, dropped: 192 });
    await assert.rejects(pml.predict("x"), Unreachable);
    await pml.close(0);
    assert.equal(pml.stats().dropped, 202);
  }));
