import type { Pml } from "./client.js";
import { newId } from "./ids.js";
import type { Prediction } from "./types.js";

/** Longest arguments that are reported, in characters of JSON. */
const ARGUMENTS_LENGTH_MAX = 65_536;
const DEPTH_MAX = 8;

/** Arguments in which handles of steps may stand for their results. */
export type Given<A> = { [K in keyof A]: Given<A[K]> | Step<A[K]> };

export interface RunOptions {
  /** The id of the execution; a new one if left out. */
  id?: string;
  /** Predictions for the runs of a session can be subscribed to. */
  session?: string;
  parent?: string;
  /** Ask what pml expects before each step (`step.prediction`). */
  predict?: boolean;
}

export interface StepOptions {
  /** Steps whose output this one uses, beside those among its arguments. */
  dependsOn?: Step<any>[];
}

/** Steps can be taken inside a run and inside another step. */
interface Steps {
  step<T, A extends object = Record<string, unknown>>(
    tool: string,
    given: Given<A>,
    call: (given: A, step: Step<T>) => Promise<T> | T,
    options?: StepOptions,
  ): Promise<Step<T>>;
  step(tool: string, given?: object, call?: undefined, options?: StepOptions): Step<unknown>;
}

/** A call of a tool. Among the arguments of a later step it stands for its result and is data flow between the two. */
export class Step<T = unknown> {
  readonly id: string;
  /** What the call returned. */
  result!: T;
  /** A short text about the result, for whoever looks at the trace. */
  summary?: string;
  /** What pml expected before this step, if the run was started with `predict`. */
  prediction?: Prediction;
  readonly #given: object;
  readonly #dependsOn: Set<string>;
  #begun: number | undefined;
  #ended = false;

  constructor(
    readonly run: Run,
    readonly tool: string,
    given: object,
    options: StepOptions | undefined,
    private readonly outer?: Step<any>,
  ) {
    this.#given = given;
    this.id = run.add(this);
    this.#dependsOn = new Set([...(options?.dependsOn ?? []), ...references(given)].map((step) => step.id));
  }

  /** Reports the start. */
  begin(): this {
    if (this.#begun === undefined) {
      this.#begun = performance.now();
      this.run.report("step.started", { step: this.id, tool: this.tool });
    }
    return this;
  }

  /** Reports success. */
  done(result?: T): void {
    if (result !== undefined) {
      this.result = result;
    }
    this.end(true, undefined);
  }

  /** Reports failure, with a short word for it or with what was thrown. */
  fail(kind: unknown = "failed"): void {
    this.end(false, typeof kind === "string" ? kind : errorKind(kind));
  }

  /** A step inside this one, which worked for it. */
  step: Steps["step"] = ((tool: string, given: object = {}, call?: (given: any, step: Step<any>) => any, options?: StepOptions) =>
    this.run.open(tool, given, call, options, this)) as Steps["step"];

  end(success: boolean, kind: string | undefined): void {
    if (this.#ended) {
      return;
    }
    this.#ended = true;
    this.run.report("step.finished", {
      step: this.id,
      tool: this.tool,
      success,
      ...(this.#dependsOn.size > 0 ? { depends_on: [...this.#dependsOn] } : {}),
      ...(this.#begun !== undefined ? { duration_ms: Math.round(performance.now() - this.#begun) } : {}),
      ...(kind ? { error_kind: kind } : {}),
      ...(this.summary ? { result_summary: this.summary } : {}),
      ...(this.run.pml.reportArguments && Object.keys(this.#given).length > 0 ? { arguments: plain(this.#given) } : {}),
    });
    this.run.remove(this);
    if (this.outer !== undefined) {
      this.outer.#dependsOn.add(this.id);
    }
  }
}

/** An execution, from its intent to its end. Made by `Pml.run`. It only puts events into a buffer, so it neither waits nor throws. */
export class Run {
  readonly id: string;
  #steps = 0;
  readonly #open = new Set<Step<any>>();
  readonly #calls: string[] = [];
  #ended = false;
  #failure: string | undefined;

  constructor(
    readonly pml: Pml,
    readonly intent: string,
    readonly options: RunOptions = {},
  ) {
    this.id = options.id ?? newId();
    const { session, parent } = options;
    const agent = pml.agent;
    this.report("execution.started", {
      intent,
      ...(session !== undefined ? { session } : {}),
      ...(agent !== undefined ? { agent } : {}),
      ...(parent !== undefined ? { parent } : {}),
    });
  }

  /** The tools called so far, in the order the calls ended. */
  get calls(): string[] {
    return [...this.#calls];
  }

  /**
   * A call of `tool`. With a function, calls it with the arguments, results in place of handles, and resolves to the handle. Without,
   * returns an open step, which ends by `done` or `fail`, or with its run.
   */
  step: Steps["step"] = ((tool: string, given: object = {}, call?: (given: any, step: Step<any>) => any, options?: StepOptions) =>
    this.open(tool, given, call, options, undefined)) as Steps["step"];

  /** What pml expects next; undefined if pml does not answer in time. */
  predict(limit = 5): Promise<Prediction | undefined> {
    return this.pml.expected(this.intent, this.calls, limit);
  }

  /** A run inside this one. */
  run<T>(intent: string, work: (run: Run) => Promise<T> | T, options: RunOptions = {}): Promise<T> {
    return this.pml.run(intent, work, { parent: this.id, ...options });
  }

  /** Says that the run failed although nothing was thrown. */
  fail(error: string): void {
    this.#failure = error;
  }

  /** Reports the end. Steps that are still open end with it. */
  finish(error?: unknown): void {
    if (this.#ended) {
      return;
    }
    this.#ended = true;
    const failure = this.#failure ?? (error === undefined ? undefined : String(error));
    for (const step of [...this.#open]) {
      step.end(failure === undefined, failure === undefined ? undefined : "unfinished");
    }
    const success = failure === undefined;
    this.report("execution.finished", { success, ...(success ? {} : { error: failure.slice(0, 1000) }) });
  }

  /** @internal */
  open(tool: string, given: object, call: ((given: any, step: Step<any>) => any) | undefined, options: StepOptions | undefined, outer: Step<any> | undefined): unknown {
    const step = new Step<any>(this, tool, given, options, outer);
    return call === undefined ? step.begin() : this.#call(step, given, call);
  }

  async #call(step: Step<any>, given: object, call: (given: any, step: Step<any>) => any): Promise<Step<any>> {
    if (this.options.predict) {
      const prediction = await this.predict();
      if (prediction !== undefined) {
        step.prediction = prediction;
      }
    }
    step.begin();
    try {
      step.result = await call(resolved(given), step);
    } catch (error) {
      step.fail(error);
      throw error;
    }
    step.done();
    return step;
  }

  /** @internal */
  add(step: Step<any>): string {
    this.#open.add(step);
    this.#steps += 1;
    return `s${this.#steps}`;
  }

  /** @internal */
  remove(step: Step<any>): void {
    this.#open.delete(step);
    this.#calls.push(step.tool);
  }

  /** @internal */
  report(kind: string, data: Record<string, unknown>): void {
    this.pml.report(kind, { execution: this.id, ...data });
  }
}

function isContainer(value: unknown): value is object {
  return Array.isArray(value) || (typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype);
}

function references(value: unknown, depth = 0): Step<any>[] {
  if (value instanceof Step) {
    return [value];
  }
  return depth < DEPTH_MAX && isContainer(value) ? Object.values(value).flatMap((one) => references(one, depth + 1)) : [];
}

/** The value with results in place of handles; values without handles as they are. */
export function resolved(value: unknown, depth = 0): any {
  if (value instanceof Step) {
    return value.result;
  }
  if (!isContainer(value) || references(value, depth).length === 0) {
    return value;
  }
  if (Array.isArray(value)) {
    return value.map((one) => resolved(one, depth + 1));
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, depth + 1)]));
}

/** Arguments as JSON: a handle becomes a reference as in workflows; what is no JSON or too long is left out. */
function plain(given: object): unknown {
  try {
    const text = JSON.stringify(given, (_, value: unknown) =>
      value instanceof Step ? `$OUTPUT[${value.id}]` : typeof value === "bigint" ? String(value) : value,
    );
    return text.length > ARGUMENTS_LENGTH_MAX ? { omitted: `${text.length} characters` } : JSON.parse(text);
  } catch {
    return { omitted: "not JSON" };
  }
}

/** A short word for a failure. */
export function errorKind(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  const known: Record<string, string> = {
    ETIMEDOUT: "timeout",
    TimeoutError: "timeout",
    AbortError: "aborted",
    ECONNREFUSED: "refused",
    ENOENT: "not_found",
    EACCES: "forbidden",
    EPERM: "forbidden",
  };
  const word = typeof code === "string" ? code : typeof name === "string" ? name : "error";
  return known[word] ?? (word.replace(/Error$/, "").replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase() || "error");
}
