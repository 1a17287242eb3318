export { Pml, type Options } from "./client.js";
export { PmlError, Refused, Unreachable } from "./errors.js";
export { Run, Step, type Given, type RunOptions, type StepOptions } from "./run.js";
export type { Stats } from "./sender.js";
export type * from "./types.js";
