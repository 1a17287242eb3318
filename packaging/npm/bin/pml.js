#!/usr/bin/env node
// Starts the program of this platform, which npm installed as an optional dependency, and ends as it ends.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const name = `pml-server-${process.platform}-${process.arch}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/bin/pml`);
} catch {
  console.error(`pml: there is no program for ${process.platform} on ${process.arch} (the package ${name} is not installed)`);
  console.error("pml: install without --omit=optional, or build it from the source with cargo");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`pml: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
