/** The adapters with the packages they are for: LangChain, OpenAI Agents, MCP. No model is asked. */

import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { Agent, Runner, Usage, tool as agentTool } from "@openai/agents";
import { Pml, type Run } from "pml-client";
import { PmlCallback } from "pml-client/langchain";
import { reported } from "pml-client/mcp";
import { reportTools } from "pml-client/openai-agents";
import { z } from "zod";
import { URL_OF_PML, records, sent, trace } from "./support.js";

const pml = new Pml({ url: URL_OF_PML, timeoutMs: 30_000, predictionTimeoutMs: 30_000 });
after(() => pml.close());

test("LangChain: the tools of a chain are steps of one run", async () => {
  const weather = tool(({ city }) => `sun in ${city}`, { name: "get_weather", description: "Weather", schema: z.object({ city: z.string() }) });
  const broken = tool(() => Promise.reject(new TypeError("no")), { name: "broken", description: "Fails", schema: z.object({ text: z.string() }) });
  const started: Run[] = [];
  const begin = pml.start.bind(pml);
  pml.start = (...given) => {
    const run = begin(...given);
    started.push(run);
    return run;
  };
  const chain = RunnableLambda.from((asked: { input: string }) => ({ city: asked.input })).pipe(weather);
  await chain.invoke({ input: "Paris" }, { callbacks: [new PmlCallback(pml)] });
  const failing = RunnableLambda.from((text: string) => ({ text })).pipe(broken);
  await assert.rejects(failing.invoke("try it", { callbacks: [new PmlCallback(pml)] }));
  await sent(pml);
  const [good, bad] = await Promise.all(started.map((run) => trace(run.id)));
  assert.equal(started.length, 2);
  assert.deepEqual([good.intent, good.success, good.steps.map((step: any) => step.tool)], ["Paris", true, ["langchain:get_weather"]]);
  assert.deepEqual([bad.success, bad.steps[0].error_kind], [false, "type"]);
});

test("OpenAI Agents: the tools of an agent are steps", async () => {
  const weather = agentTool({
    name: "get_weather",
    description: "Weather",
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => `sun in ${city}`,
  });
  const call = { type: "function_call", callId: "c1", name: "get_weather", arguments: '{"city":"Paris"}', status: "completed" };
  const message = { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "Sun." }] };
  const answers = [call, message];
  const model = {
    getResponse: async () => ({ usage: new Usage(), output: [answers.shift()] }),
    getStreamedResponse: () => assert.fail("nothing is streamed"),
  };
  const agent = new Agent({ name: "a", tools: [weather], model: model as any });
  const runner = new Runner({ tracingDisabled: true });
  const id = await pml.run("weather in Paris", async (run) => {
    const end = reportTools(runner, run);
    const result = await runner.run(agent, "weather in Paris");
    end();
    assert.equal(result.finalOutput, "Sun.");
    return run.id;
  });
  await sent(pml);
  assert.deepEqual((await trace(id)).steps.map((step: any) => [step.tool, step.success]), [["openai:get_weather", true]]);
  const finished = (await records(id)).find((record) => record.type === "pml.step.finished");
  assert.deepEqual(finished.data.arguments, { city: "Paris" });
});

test("MCP: the calls of a client are steps", async () => {
  const server = new McpServer({ name: "files", version: "1" });
  server.registerTool("read", { inputSchema: { path: z.string() } }, ({ path }) => ({
    content: [{ type: "text", text: `content of ${path}` }],
    isError: path === "missing",
  }));
  const client = new Client({ name: "test", version: "1" });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(far), client.connect(near)]);
  const id = await pml.run("read files", async (run) => {
    const calls = reported(client, run, "files");
    await calls.callTool({ name: "read", arguments: { path: "a" } });
    const path = calls.last;
    assert.ok(path);
    path.result = "b";
    await calls.callTool({ name: "read", arguments: { path } });
    await calls.callTool({ name: "read", arguments: { path: "missing" } });
    return run.id;
  });
  await Promise.all([client.close(), server.close()]);
  await sent(pml);
  const { steps } = await trace(id);
  assert.deepEqual(steps.map((step: any) => [step.tool, step.success]), [["files:read", true], ["files:read", true], ["files:read", false]]);
  assert.deepEqual(steps.map((step: any) => step.depends_on), [[], ["s1"], []]);
});
