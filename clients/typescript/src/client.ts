import { PmlError } from "./errors.js";
import { newId, newTime } from "./ids.js";
import { Run, type RunOptions } from "./run.js";
import { Sender, type Stats } from "./sender.js";
import { Transport } from "./transport.js";
import type { Discovery, Explanation, Prediction, Published, RunDocument, Suggestion, Verdict } from "./types.js";

/** After a prediction that did not come, none is asked for this long. */
const QUIET_MS = 5_000;

export interface Options {
  /** http://HOST:PORT or https://HOST; by default PML_URL, else the server on this machine. */
  url?: string;
  /** An API key; by default PML_KEY. */
  key?: string;
  source?: string;
  agent?: string;
  timeoutMs?: number;
  predictionTimeoutMs?: number;
  /** Events that wait at most; further ones are dropped and counted. */
  bufferEvents?: number;
  batchEvents?: number;
  batchMs?: number;
  reportArguments?: boolean;
}

/** A connection to pml. Reporting neither waits nor throws; questions reject with `PmlError`. */
export class Pml {
  readonly agent: string | undefined;
  /** @internal */
  readonly reportArguments: boolean;
  readonly #source: string;
  readonly #timeoutMs: number;
  readonly #predictionTimeoutMs: number;
  readonly #transport: Transport;
  readonly #sender: Sender;
  #quietUntil = 0;

  constructor(options: Options = {}) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    this.agent = options.agent;
    this.reportArguments = options.reportArguments ?? true;
    this.#source = options.source ?? "pml-client-typescript";
    this.#timeoutMs = options.timeoutMs ?? 5_000;
    this.#predictionTimeoutMs = options.predictionTimeoutMs ?? 500;
    this.#transport = new Transport(options.url ?? environment.PML_URL ?? "http://127.0.0.1:8080", options.key ?? environment.PML_KEY);
    this.#sender = new Sender(this.#transport, {
      bufferEvents: options.bufferEvents ?? 10_000,
      batchEvents: options.batchEvents ?? 100,
      batchMs: options.batchMs ?? 20,
      timeoutMs: this.#timeoutMs,
    });
  }

  /** Does `work` as one run and returns what it returns. What it throws is reported and thrown on. */
  async run<T>(intent: string, work: (run: Run) => Promise<T> | T, options: RunOptions = {}): Promise<T> {
    const run = new Run(this, intent, options);
    try {
      const result = await work(run);
      run.finish();
      return result;
    } catch (error) {
      run.finish(error);
      throw error;
    }
  }

  /** A run whose end is reported by `finish`. */
  start(intent: string, options: RunOptions = {}): Run {
    return new Run(this, intent, options);
  }

  /** A tool from a function: `tool(run, args)` is a step of the run. Registers the tool with its description. */
  tool<A extends object, T>(name: string, description: string, call: (given: A) => Promise<T> | T, inputSchema?: object) {
    this.register(name, description, inputSchema);
    return (run: Run, given: import("./run.js").Given<A>) => run.step<T, A>(name, given, call);
  }

  /** Tells pml what a tool does; that helps `discover` before it was ever called. */
  register(tool: string, description: string, inputSchema?: object): void {
    this.report("tool.registered", { tool, description, ...(inputSchema ? { input_schema: inputSchema } : {}) });
  }

  /** Says what became of a prediction or of a suggested plan, by its id. */
  feedback(verdict: Verdict, target: { prediction: string } | { suggestion: string }): void {
    this.report("feedback.given", { ...target, verdict });
  }

  /** Reports a whole run as one document (POST /v1/executions) and waits for the answer. */
  record(document: RunDocument): Promise<Published & { execution: string }> {
    return this.#transport.ask("POST", "/v1/executions", document, this.#timeoutMs);
  }

  /** Tools and capabilities for an intent, with scores and reasons. */
  discover(intent: string, more: { limit?: number; [name: string]: unknown } = {}): Promise<Discovery> {
    return this.ask("discover", { intent, ...more });
  }

  /** The next call, given an intent and the calls so far. */
  predict(intent: string, more: { context?: string[]; limit?: number; [name: string]: unknown } = {}): Promise<Prediction> {
    return this.ask("predict", { intent, ...more });
  }

  /** A plan for an intent, with alternatives and what is missing. */
  suggest(intent: string, more: { context?: string[]; [name: string]: unknown } = {}): Promise<Suggestion> {
    return this.ask("suggest", { intent, ...more });
  }

  /** Why an outcome is predicted; also `prediction` with the id of one that was served, `item` for another outcome than the first. */
  explain(intent: string, more: { context?: string[]; item?: string; prediction?: string } = {}): Promise<Explanation> {
    return this.ask("explain", { intent, ...more });
  }

  /** Any other question by its name, such as score, speculate, related or state. */
  ask<T = unknown>(question: string, body: Record<string, unknown> = {}): Promise<T> {
    if (["related", "state", "models"].includes(question)) {
      const query = new URLSearchParams(Object.entries(body).map(([name, value]) => [name, String(value)]));
      return this.#transport.ask("GET", `/v1/${question}?${query}`, undefined, this.#timeoutMs);
    }
    return this.#transport.ask("POST", `/v1/${question}`, body, this.#timeoutMs);
  }

  /** Predictions as they are made: after the start and after each step of the runs of a session. Resolves when pml listens. */
  subscribe(session?: string, options: { signal?: AbortSignal } = {}): Promise<AsyncGenerator<Prediction, void>> {
    return this.#transport.predictions(session, options.signal);
  }

  /** What became of the events: sent, refused, dropped, waiting. */
  stats(): Stats {
    return this.#sender.stats();
  }

  /** Waits until all that was reported is sent; false if it was not in time. */
  flush(timeoutMs = 5_000): Promise<boolean> {
    return this.#sender.flush(timeoutMs);
  }

  /** Sends what waits and ends. */
  close(timeoutMs = 2_000): Promise<void> {
    return this.#sender.close(timeoutMs);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  report(kind: string, data: Record<string, unknown>): void {
    this.#sender.put({ specversion: "1.0", id: newId(), source: this.#source, type: `pml.${kind}`, time: newTime(), data });
  }

  /** @internal */
  async expected(intent: string, context: string[], limit: number): Promise<Prediction | undefined> {
    if (Date.now() < this.#quietUntil) {
      return undefined;
    }
    try {
      return await this.#transport.ask<Prediction>("POST", "/v1/predict", { intent, context, limit }, this.#predictionTimeoutMs);
    } catch (error) {
      if (!(error instanceof PmlError)) {
        throw error;
      }
      this.#quietUntil = Date.now() + QUIET_MS;
      return undefined;
    }
  }
}
