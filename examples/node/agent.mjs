// An agent that publishes its steps to pml and prints the predictions it receives. It uses only the NATS client, no pml code.
//
//     npm ci
//     node agent.mjs nats://127.0.0.1:4222 "zip the reports" fs:list zip:pack
//
// It runs the tools one after the other (here: pretends to), publishes each step, and prints what pml expects after it.

import { randomBytes } from "node:crypto";
import { headers } from "@nats-io/nats-core";
import { jetstream } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

const workspace = process.env.PML_WORKSPACE ?? "default";
const PATIENCE_MS = 30_000;

/** A UUIDv7: pml takes those and ULIDs. The same id twice is one event, so sending again is safe. */
function newId() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Publishes one CloudEvent and waits until the server has stored it. */
async function publish(stream, kind, data) {
  const event = { specversion: "1.0", id: newId(), source: "examples/node", type: `pml.${kind}`, data };
  const head = headers();
  head.set("content-type", "application/cloudevents+json");
  await stream.publish(`pml.${workspace}.in.${kind}`, JSON.stringify(event), { msgID: event.id, headers: head });
}

/** Waits for the next prediction and prints it. */
async function printPrediction(predictions, after) {
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error(`no prediction after ${after}`)), PATIENCE_MS).unref());
  const { value: message, done } = await Promise.race([predictions.next(), late]);
  if (done) throw new Error("the subscription ended");
  const prediction = message.json();
  const ranked = prediction.ranked.slice(0, 3).map(({ item, p }) => `${item} ${Math.round(p * 100)}%`).join(", ");
  console.log(`after ${after}: ${ranked} [${prediction.decision}]`);
  return prediction;
}

const [url, intent, ...tools] = process.argv.slice(2);
const { host, username, password } = new URL(url);
const client = await connect({ servers: host, user: username || undefined, pass: password || undefined });
const stream = jetstream(client);
const execution = `node-${newId()}`;
const session = execution;
// In a subject, letters, digits, - and _ of a session are unchanged; any other byte is written =XX.
const predictions = client.subscribe(`pml.${workspace}.predict.${session}`)[Symbol.asyncIterator]();
await client.flush();

await publish(stream, "execution.started", { execution, session, intent });
let prediction = await printPrediction(predictions, "the start");
for (const [at, tool] of tools.entries()) {
  await publish(stream, "step.finished", { execution, step: `s${at + 1}`, tool, success: true });
  const verdict = prediction.ranked[0]?.item === tool ? "accepted" : "ignored";
  await publish(stream, "feedback.given", { prediction: prediction.prediction, verdict });
  prediction = await printPrediction(predictions, tool);
}
await publish(stream, "execution.finished", { execution, success: true });
await client.close();
