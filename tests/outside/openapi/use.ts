// Compiled, never run: a program that relies on the generated types.
import type { components, operations, paths } from "./schema";

type Event = components["schemas"]["CloudEvent"];
type Publish = paths["/v1/events"]["post"]["responses"][202]["content"]["application/json"];
type Predicted = operations["predict"]["responses"][200]["content"]["application/json"];

export const started: Event = {
  specversion: "1.0", source: "me", type: "pml.execution.started", data: { execution: "e1", intent: "zip the reports" },
};
export const accepted = (answer: Publish): number => answer.results.filter(result => result.status === "accepted").length;
export const next = (answer: Predicted): string | undefined => answer.ranked[0]?.item;

// @ts-expect-error: an execution has an intent
export const wrong: Event = { specversion: "1.0", source: "me", type: "pml.execution.started", data: { execution: "e1" } };
