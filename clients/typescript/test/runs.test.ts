import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { Pml, Refused, type Run } from "pml-client";
import { URL_OF_PML, indexed, records, sent, trace } from "./support.js";

const pml = new Pml({ url: URL_OF_PML, timeoutMs: 30_000, predictionTimeoutMs: 30_000 });
after(() => pml.close());

test("a run is in the log with its steps and their data flow", async () => {
  const id = await pml.run("zip the reports", async (run) => {
    const files = await run.step("fs:list", { path: "reports" }, ({ path }: { path: string }) => [`${path}/a`]);
    const packed = await run.step("zip:pack", { files, level: 9 }, ({ files }: { files: string[]; level: number }) => files.length);
    assert.deepEqual([packed.result, run.calls], [1, ["fs:list", "zip:pack"]]);
    return run.id;
  });
  await sent(pml);
  const found = await trace(id);
  assert.deepEqual([found.success, found.intent], [true, "zip the reports"]);
  assert.deepEqual(found.steps.map((step: any) => [step.tool, step.depends_on]), [["fs:list", []], ["zip:pack", ["s1"]]]);
  const finished = (await records(id)).filter((record) => record.type === "pml.step.finished");
  assert.deepEqual(finished[1].data.arguments, { files: "$OUTPUT[s1]", level: 9 });
});

test("what is thrown is a failed step and a failed run, and is thrown on", async () => {
  let id = "";
  const work = async (run: Run) => {
    id = run.id;
    await run.step("web:get", {}, () => Promise.reject(Object.assign(new Error("slow"), { code: "ETIMEDOUT" })));
  };
  await assert.rejects(pml.run("fetch the page", work), /slow/);
  await sent(pml);
  const found = await trace(id);
  assert.deepEqual([found.success, found.steps[0].success, found.steps[0].error_kind], [false, false, "timeout"]);
});

test("steps run side by side, inside each other, and runs inside runs", async () => {
  const [outer, inner] = await pml.run("research", async (run) => {
    const pages = await Promise.all([1, 2, 3].map((page) => run.step("web:get", { page }, () => page)));
    await run.step("web:research", { pages }, async (_, step) => {
      await step.step("web:search", {}, () => "found");
    });
    return run.run("a part of it", (part) => [run.id, part.id] as const);
  });
  await sent(pml);
  const steps = (await trace(outer)).steps;
  const research = steps.find((step: any) => step.tool === "web:research");
  const search = steps.find((step: any) => step.tool === "web:search");
  assert.deepEqual(research.depends_on.sort(), ["s1", "s2", "s3", search.step].sort());
  assert.equal((await records(inner))[0].data.parent, outer);
});

test("open steps end with their run, and a tool made from a function is a step", async () => {
  const greet = pml.tool("mail:greet", "Greets somebody", ({ name }: { name: string }) => `hello ${name}`);
  const id = await pml.run("greet", async (run) => {
    const greeted = await greet(run, { name: "you" });
    assert.equal(greeted.result, "hello you");
    run.step("fs:stat", { path: "a" });
    run.fail("not found");
    return run.id;
  });
  await sent(pml);
  const found = await trace(id);
  assert.deepEqual(found.steps.map((step: any) => step.success), [true, false]);
  await indexed(pml, "greet somebody", "mail:greet");
});

test("a whole run is one document, and a wrong one is told by its field", async () => {
  const answer = await pml.record({ intent: "x", steps: [{ tool: "a:b" }, { tool: "a:c", depends_on: ["s1"] }] });
  assert.equal(answer.accepted, 4);
  assert.equal((await trace(answer.execution)).steps.length, 2);
  const wrong = pml.record({ intent: "x", steps: [{} as { tool: string }] });
  await assert.rejects(wrong, (error) => error instanceof Refused && /steps\[0\]\.tool: is missing/.test(error.message));
});

test("a refused event is counted with its reason", async () => {
  const other = new Pml({ url: URL_OF_PML });
  other.register("not a tool", "x");
  assert.equal(await other.flush(30_000), true);
  assert.equal(other.stats().refused, 1);
  assert.match(other.stats().refusals[0] ?? "", /data\.tool/);
  await other.close();
});
