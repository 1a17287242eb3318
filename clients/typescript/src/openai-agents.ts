/** OpenAI Agents: `reportTools(runner, run)` reports the tools that a `Runner` calls as steps of a run. */

import { errorKind, type Run, type Step } from "./run.js";

/** What is used of `Runner` and `Agent`, which emit these events. */
interface Emitter {
  on(event: any, listener: (...given: any[]) => void): unknown;
  off(event: any, listener: (...given: any[]) => void): unknown;
}

/** Returns a function that ends the reporting. `server` stands before the names of tools: `get_weather` is `openai:get_weather`. */
export function reportTools(runner: Emitter, run: Run, server = "openai"): () => void {
  const steps = new Map<string, Step>();
  const started = (_context: unknown, _agent: unknown, tool: { name: string }, details: Details) => {
    steps.set(callOf(tool, details), run.step(`${server}:${tool.name}`, given(details?.toolCall?.arguments)));
  };
  const ended = (_context: unknown, _agent: unknown, tool: { name: string }, _result: unknown, details: Details) => {
    steps.get(callOf(tool, details))?.done();
  };
  runner.on("agent_tool_start", started);
  runner.on("agent_tool_end", ended);
  return () => {
    runner.off("agent_tool_start", started);
    runner.off("agent_tool_end", ended);
  };
}

type Details = { toolCall?: { callId?: string; arguments?: string } } | undefined;

function callOf(tool: { name: string }, details: Details): string {
  return details?.toolCall?.callId ?? tool.name;
}

function given(text: string | undefined): object {
  try {
    return JSON.parse(text ?? "{}") as object;
  } catch (error) {
    return { omitted: errorKind(error) };
  }
}
