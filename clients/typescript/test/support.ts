/** A real pml, found by PML_TEST_URL, and a connection to it that can fail on demand. */

import { strict as assert } from "node:assert";
import { connect, createServer, type Server, type Socket } from "node:net";
import { Pml } from "pml-client";

export const URL_OF_PML = process.env.PML_TEST_URL ?? "http://127.0.0.1:8080";
export const PATIENCE_MS = 30_000;

export async function eventually<T>(ask: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) {
      return answer;
    }
    assert.ok(Date.now() < until, "waited in vain");
    await new Promise((done) => setTimeout(done, 10));
  }
}

/** An execution, once it is closed. */
export function trace(execution: string): Promise<any> {
  return eventually(async () => {
    const answer = await fetch(`${URL_OF_PML}/v1/traces/${execution}`);
    const found = (await answer.json()) as { status?: string };
    return answer.ok && found.status !== "open" ? found : undefined;
  });
}

/** Waits until discover answers a tool: the index that it asks follows the log. */
export async function indexed(pml: Pml, intent: string, tool: string): Promise<void> {
  await eventually(async () => (await pml.discover(intent, { limit: 50 })).results.find((one) => one.id === tool));
}

/** Waits until there is a plan for an intent: the index that it is made from follows the log. */
export async function suggested(pml: Pml, intent: string): Promise<void> {
  await eventually(async () => (await pml.suggest(intent)).plan ?? undefined);
}

/** The records of an execution in the log. */
export async function records(execution: string): Promise<any[]> {
  const text = await (await fetch(`${URL_OF_PML}/v1/events`)).text();
  const lines = text.trim().split("\n").map((line) => JSON.parse(line));
  return lines.filter((record) => record.data.execution === execution);
}

/** All that was reported is in the log. */
export async function sent(pml: Pml): Promise<void> {
  assert.equal(await pml.flush(PATIENCE_MS), true);
  const { refused, dropped, refusals } = pml.stats();
  assert.deepEqual({ refused, dropped, refusals }, { refused: 0, dropped: 0, refusals: [] });
}

/** A TCP connection to pml. `mode` is forward, refuse, hang, or lose: the request arrives and its answer does not. */
export class Proxy {
  mode: "forward" | "refuse" | "hang" | "lose" = "forward";
  lost = 0;
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  private constructor() {
    const { hostname, port } = new URL(URL_OF_PML);
    this.#server = createServer((client) => {
      this.#open.add(client);
      client.on("error", () => client.destroy());
      if (this.mode === "refuse") {
        client.destroy();
      } else if (this.mode !== "hang") {
        const server = connect(Number(port), hostname);
        this.#open.add(server);
        server.on("error", () => client.destroy());
        client.pipe(server);
        server.on("data", (data) => {
          if (this.mode === "lose") {
            this.lost += 1;
            client.destroy();
          } else {
            client.write(data);
          }
        });
        server.on("close", () => client.destroy());
      }
    });
  }

  static async open(): Promise<Proxy> {
    const proxy = new Proxy();
    await new Promise<void>((done) => proxy.#server.listen(0, "127.0.0.1", done));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#open) {
      socket.destroy();
    }
  }
}
