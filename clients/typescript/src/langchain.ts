/** LangChain: `chain.invoke(question, { callbacks: [new PmlCallback(pml)] })` reports the outermost chain as a run, its tools as steps. */

import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { Pml } from "./client.js";
import type { Run, Step } from "./run.js";

export class PmlCallback extends BaseCallbackHandler {
  override name = "pml";
  readonly #runs = new Map<string, Run>();
  readonly #steps = new Map<string, Step>();

  /** `server` stands before the names of tools that have none: `get_weather` is `langchain:get_weather`. */
  constructor(
    private readonly pml: Pml,
    private readonly options: { intent?: string; session?: string; server?: string } = {},
  ) {
    super();
  }

  override handleChainStart(_chain: unknown, inputs: unknown, runId: string, parentRunId?: string): void {
    this.#begin(inputs, runId, parentRunId);
  }

  override handleChainEnd(_outputs: unknown, runId: string, parentRunId?: string): void {
    this.#finish(runId, parentRunId, undefined);
  }

  override handleChainError(error: unknown, runId: string, parentRunId?: string): void {
    this.#finish(runId, parentRunId, error);
  }

  override handleToolStart(
    tool: { id?: string[] },
    input: string,
    runId: string,
    parentRunId?: string,
    _tags?: string[],
    _metadata?: Record<string, unknown>,
    runName?: string,
  ): void {
    const name = runName ?? tool.id?.at(-1) ?? "tool";
    const run = this.#begin(input, runId, parentRunId);
    const step = run.step(name.includes(":") ? name : `${this.options.server ?? "langchain"}:${name}`, given(input));
    this.#steps.set(runId, step);
  }

  override handleToolEnd(output: unknown, runId: string, parentRunId?: string): void {
    const failed = (output as { status?: string } | undefined)?.status === "error";
    const step = this.#steps.get(runId);
    failed ? step?.fail("error") : step?.done();
    this.#finish(runId, parentRunId, undefined);
  }

  override handleToolError(error: unknown, runId: string, parentRunId?: string): void {
    this.#steps.get(runId)?.fail(error);
    this.#finish(runId, parentRunId, error);
  }

  /** The run of a call: that of the call around it, or a new one. */
  #begin(inputs: unknown, runId: string, parent: string | undefined): Run {
    const { intent, session } = this.options;
    const around = parent === undefined ? undefined : this.#runs.get(parent);
    const run = around ?? this.pml.start(intent ?? words(inputs), session === undefined ? {} : { session });
    this.#runs.set(runId, run);
    return run;
  }

  #finish(runId: string, parent: string | undefined, error: unknown): void {
    const run = this.#runs.get(runId);
    this.#runs.delete(runId);
    this.#steps.delete(runId);
    if (parent === undefined || !this.#runs.has(parent)) {
      run?.finish(error);
    }
  }
}

function given(input: string): object {
  try {
    const parsed: unknown = JSON.parse(input);
    return typeof parsed === "object" && parsed !== null ? parsed : { input };
  } catch {
    return { input };
  }
}

/** The text of what a chain was asked. */
function words(inputs: unknown): string {
  let found = inputs;
  if (typeof found === "object" && found !== null && !Array.isArray(found)) {
    const members = found as Record<string, unknown>;
    found = members.input ?? members.question ?? members.query ?? members.messages ?? Object.values(members)[0] ?? "";
  }
  if (Array.isArray(found)) {
    found = found.at(-1) ?? "";
  }
  const content = (found as { content?: unknown }).content ?? found;
  return (typeof content === "string" ? content : JSON.stringify(content)) || "a chain";
}
