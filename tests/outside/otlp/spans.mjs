// An instrumented agent: the OpenTelemetry SDK with both exporters of OTLP/HTTP, configured by the endpoint alone.
// Prints the trace ids.
import { SpanStatusCode, context, trace } from "@opentelemetry/api";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

// Spans that begin in the same microsecond have no order.
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function report(name, exporter) {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": name }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer("planner");
  const root = tracer.startSpan("invoke_agent planner", {
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": name,
      "gen_ai.conversation.id": `conversation-${name}`,
      "gen_ai.input.messages": JSON.stringify([
        { role: "user", parts: [{ type: "text", content: "book a table for two, my password=hunter2hunter2" }] },
      ]),
    },
  });
  const within = trace.setSpan(context.active(), root);
  const call = (tool, attributes) =>
    tracer.startSpan(
      `execute_tool ${tool}`,
      { attributes: { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, ...attributes } },
      within,
    );
  const found = call("find_restaurant", {
    "gen_ai.tool.call.id": "call-1",
    "gen_ai.tool.call.arguments": JSON.stringify({ city: "Lyon" }),
    "gen_ai.tool.call.result": JSON.stringify({ restaurant: "chez-marcel-4711" }),
  });
  await pause(5);
  found.end();
  await pause(5);
  const booked = call("book_table", {
    "gen_ai.tool.call.id": "call-2",
    "gen_ai.tool.call.arguments": JSON.stringify({ restaurant: "chez-marcel-4711" }),
    "error.type": "timeout",
  });
  booked.setStatus({ code: SpanStatusCode.ERROR, message: "no answer" });
  booked.end();
  root.end();
  await provider.forceFlush();
  await provider.shutdown();
  return root.spanContext().traceId;
}

const traces = [
  await report("node-json", new JsonExporter()),
  await report("node-protobuf", new ProtobufExporter({ compression: "gzip" })),
];
console.log(JSON.stringify(traces));
