/** MCP: `reported(client, run, "fs").callTool({ name: "list", arguments: {...} })` calls the tool and reports it as the step `fs:list`. */

import { resolved, type Run, type Step } from "./run.js";

/** What is used of the SDK's `Client`, of any version. */
interface Caller {
  callTool(request: { name: string; arguments?: Record<string, unknown> }, ...more: any[]): Promise<any>;
}

/** The calls of a client, each a step of a run. Handles of steps may stand among the arguments, for their results. */
export function reported<C extends Caller>(client: C, run: Run, server: string): { callTool: C["callTool"]; last: Step | undefined } {
  const calls = {
    last: undefined as Step | undefined,
    async callTool(request: { name: string; arguments?: Record<string, unknown> }, ...more: any[]): Promise<any> {
      const step = run.step(`${server}:${request.name}`, request.arguments ?? {});
      calls.last = step;
      try {
        const result = await client.callTool({ ...request, arguments: resolved(request.arguments ?? {}) }, ...more);
        step.result = result.structuredContent ?? result;
        result.isError ? step.fail("tool_error") : step.done();
        return result;
      } catch (error) {
        step.fail(error);
        throw error;
      }
    },
  };
  return calls;
}
