/** Questions, on a server that has seen nothing but these runs: what other runs do would be learnt too. */

import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { Pml } from "pml-client";
import { PATIENCE_MS, URL_OF_PML, indexed, sent, suggested, trace } from "./support.js";

const pml = new Pml({ url: URL_OF_PML, timeoutMs: 30_000, predictionTimeoutMs: 30_000 });
after(() => pml.close());

async function learn(): Promise<void> {
  let last = "";
  for (let at = 0; at < 6; at += 1) {
    await pml.run("paint the fence", async (run) => {
      last = run.id;
      const colour = await run.step("paint:mix", {}, () => "green");
      await run.step("paint:brush", { colour }, () => undefined);
    });
  }
  await sent(pml);
  await trace(last);
  await indexed(pml, "paint the fence", "paint:brush");
  await suggested(pml, "paint the fence");
}

test("what was learnt is predicted, found, suggested and explained", async () => {
  await learn();
  const context = ["paint:mix"];
  assert.equal((await pml.predict("paint the fence", { context })).ranked[0]?.item, "paint:brush");
  const { plan } = await pml.suggest("paint the fence");
  assert.ok(plan);
  assert.ok(plan.tasks.some((task) => task.tool === "paint:brush"));
  pml.feedback("accepted", { suggestion: plan.id });
  assert.ok((await pml.explain("paint the fence", { context })).taught.length > 0);
  assert.equal(((await pml.ask("related", { tool: "paint:mix" })) as { tool: string }).tool, "paint:mix");
  assert.ok("applied_seq" in ((await pml.ask("state")) as object));
  const seen = await pml.run("paint the fence", async (run) => (await run.step("paint:mix", {}, () => 1)).prediction, { predict: true });
  assert.equal(seen?.ranked[0]?.item, "paint:mix");
});

test("predictions arrive after the start and after each step", async () => {
  await learn();
  const heard = await pml.subscribe("ts-stream", { signal: AbortSignal.timeout(PATIENCE_MS) });
  await pml.run(
    "paint the fence",
    async (run) => {
      const first = (await heard.next()).value;
      await run.step("paint:mix", {}, () => "green");
      const second = (await heard.next()).value;
      assert.deepEqual([first?.execution, second?.execution], [run.id, run.id]);
      assert.deepEqual([first?.ranked[0]?.item, second?.ranked[0]?.item], ["paint:mix", "paint:brush"]);
      pml.feedback("accepted", { prediction: second?.prediction ?? "" });
    },
    { session: "ts-stream" },
  );
  await heard.return();
  await sent(pml);
});
