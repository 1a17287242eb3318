import { PmlError, Refused } from "./errors.js";
import { problem, type Transport } from "./transport.js";
import type { CloudEvent, Published } from "./types.js";

const PAUSE_MS = 100;
const PAUSE_MS_MAX = 5_000;
/** Refusals that say "later": the event is valid. */
const TEMPORARY = new Set(["too_many_open"]);
const REFUSALS_MAX = 100;

/** What became of the events so far. */
export interface Stats {
  /** In pml's log. */
  sent: number;
  /** Not accepted by pml; `refusals` holds the newest reasons. */
  refused: number;
  /** Lost because the buffer was full, or because pml was away when the client was closed. */
  dropped: number;
  /** In the buffer. */
  waiting: number;
  refusals: string[];
}

export interface SenderOptions {
  bufferEvents: number;
  batchEvents: number;
  batchMs: number;
  timeoutMs: number;
}

/** A bounded buffer that is emptied in batches, again with the same ids after a failure. `put` never waits. */
export class Sender {
  readonly #transport: Transport;
  readonly #options: SenderOptions;
  #events: CloudEvent[] = [];
  #inHand = 0;
  #sent = 0;
  #refused = 0;
  #dropped = 0;
  #refusals: string[] = [];
  #hurry = 0;
  /** When to give up; set by `close`. */
  #deadline: number | undefined;
  #working: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  constructor(transport: Transport, options: SenderOptions) {
    this.#transport = transport;
    this.#options = options;
  }

  /** Takes an event; false if it had to be dropped. */
  put(event: CloudEvent): boolean {
    if (this.#deadline !== undefined || this.#events.length + this.#inHand >= this.#options.bufferEvents) {
      this.#dropped += 1;
      return false;
    }
    this.#events.push(event);
    if (this.#events.length >= this.#options.batchEvents) {
      this.#wake?.();
    }
    this.#working ??= this.#work();
    return true;
  }

  /** Waits until everything is sent; false if that took longer. */
  async flush(timeoutMs: number): Promise<boolean> {
    this.#hurry += 1;
    this.#wake?.();
    const until = Date.now() + timeoutMs;
    while (this.#working !== undefined && Date.now() < until) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      await Promise.race([this.#working, new Promise((done) => (timer = setTimeout(done, until - Date.now())))]);
      clearTimeout(timer);
    }
    this.#hurry -= 1;
    return this.#events.length + this.#inHand === 0;
  }

  /** Sends what waits, for `timeoutMs` at most; the rest is dropped and counted. */
  async close(timeoutMs: number): Promise<void> {
    this.#deadline = Date.now() + timeoutMs;
    this.#wake?.();
    await this.#working;
  }

  stats(): Stats {
    const waiting = this.#events.length + this.#inHand;
    return { sent: this.#sent, refused: this.#refused, dropped: this.#dropped, waiting, refusals: [...this.#refusals] };
  }

  async #work(): Promise<void> {
    while (this.#events.length > 0) {
      if (this.#hurry === 0 && this.#deadline === undefined && this.#events.length < this.#options.batchEvents) {
        await this.#pause(this.#options.batchMs);
      }
      if (this.#isLate()) {
        this.#dropped += this.#events.length;
        this.#events = [];
        break;
      }
      const batch = this.#events.splice(0, this.#options.batchEvents);
      this.#inHand = batch.length;
      await this.#deliver(batch);
      this.#inHand = 0;
    }
    this.#working = undefined;
  }

  async #deliver(batch: CloudEvent[]): Promise<void> {
    for (let pause = PAUSE_MS; batch.length > 0; pause = Math.min(pause * 2, PAUSE_MS_MAX)) {
      try {
        batch = this.#settle(batch, await this.#publish(batch));
      } catch (error) {
        if (error instanceof Refused && error.status === 413) {
          if (batch.length === 1) {
            this.#refuse(error.message);
            return;
          }
          await this.#deliver(batch.slice(0, batch.length / 2));
          batch = batch.slice(batch.length / 2);
          continue;
        }
        if (!(error instanceof PmlError)) {
          throw error;
        }
      }
      if (batch.length > 0) {
        if (this.#isLate()) {
          this.#dropped += batch.length;
          return;
        }
        await this.#pause(this.#deadline === undefined ? pause : Math.min(pause, this.#deadline - Date.now()));
      }
    }
  }

  async #publish(batch: CloudEvent[]): Promise<Published> {
    const { status, answer } = await this.#transport.request("POST", "/v1/events", batch, this.#options.timeoutMs);
    if (Array.isArray(answer?.results)) {
      return answer as Published;
    }
    throw problem(status, answer);
  }

  /** Counts what was answered and returns the events that are to be sent again. */
  #settle(batch: CloudEvent[], answer: Published): CloudEvent[] {
    return batch.filter((event, at) => {
      const error = answer.results[at]?.error;
      if (error === undefined) {
        this.#sent += 1;
      } else if (TEMPORARY.has(error.reason)) {
        return true;
      } else {
        this.#refuse(`${event.type}: ${error.message}`);
      }
      return false;
    });
  }

  #refuse(reason: string): void {
    this.#refused += 1;
    this.#refusals = [...this.#refusals, reason].slice(-REFUSALS_MAX);
  }

  #isLate(): boolean {
    return this.#deadline !== undefined && Date.now() >= this.#deadline;
  }

  /** Waits, unless something happens first. A program whose events wait ends when they are sent, or when it closes the client. */
  #pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, Math.max(ms, 0));
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}
