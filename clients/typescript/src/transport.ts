import { PmlError, Refused, Unreachable } from "./errors.js";
import type { Prediction } from "./types.js";

/** Answers after which the same request may succeed. */
const RETRIED = new Set([408, 429, 500, 502, 503, 504, 507]);

/** Requests to pml over HTTP, by `fetch`. */
export class Transport {
  readonly #headers: Record<string, string>;
  readonly #url: string;

  constructor(url: string, key: string | undefined) {
    if (!/^https?:\/\//.test(url)) {
      throw new PmlError(`url: '${url}' is not http://HOST:PORT or https://HOST`);
    }
    this.#url = url.replace(/\/+$/, "");
    this.#headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  }

  async request(method: "GET" | "POST", path: string, body: unknown, timeoutMs: number): Promise<{ status: number; answer: any }> {
    try {
      const response = await fetch(this.#url + path, {
        method,
        headers: this.#headers,
        signal: AbortSignal.timeout(timeoutMs),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, answer: parsed(text) };
    } catch (error) {
      throw new Unreachable(`${this.#url}: ${causeOf(error)}`);
    }
  }

  /** The answer, or the error that the status stands for. */
  async ask<T>(method: "GET" | "POST", path: string, body: unknown, timeoutMs: number): Promise<T> {
    const { status, answer } = await this.request(method, path, body, timeoutMs);
    if (status >= 400) {
      throw problem(status, answer);
    }
    return answer as T;
  }

  /** Resolves when pml listens; from then on no prediction is missed. */
  async predictions(session: string | undefined, signal: AbortSignal | undefined): Promise<AsyncGenerator<Prediction, void>> {
    const query = session === undefined ? "" : `?session=${encodeURIComponent(session)}`;
    let response: Response;
    try {
      response = await fetch(`${this.#url}/v1/predictions${query}`, { headers: this.#headers, signal: signal ?? null });
    } catch (error) {
      throw new Unreachable(`${this.#url}: ${causeOf(error)}`);
    }
    if (!response.ok || response.body === null) {
      throw problem(response.status, parsed(await response.text()));
    }
    return heard(response.body, signal);
  }
}

async function* heard(body: ReadableStream<Uint8Array>, signal: AbortSignal | undefined): AsyncGenerator<Prediction, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const message = line.startsWith("data: {") ? JSON.parse(line.slice(6)) : undefined;
        if (message?.ranked) {
          yield message as Prediction;
        }
      }
    }
  } catch (error) {
    if (!signal?.aborted) {
      throw new Unreachable(causeOf(error));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export function problem(status: number, answer: any): PmlError {
  const message = typeof answer?.error === "string" ? answer.error : `answered with status ${status}`;
  return RETRIED.has(status) ? new Unreachable(message) : new Refused(status, message);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { error: text.slice(0, 200) };
  }
}

function causeOf(error: unknown): string {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  return cause?.code ?? cause?.message ?? String((error as Error).message ?? error);
}
