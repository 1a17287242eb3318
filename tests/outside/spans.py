"""Instrumented agents: the OpenTelemetry SDK with the OTLP/HTTP exporter, OpenInference around LangChain's tools, and the Langfuse SDK, none
with a model behind it. OTEL_EXPORTER_OTLP_ENDPOINT is the only setting. Prints the trace ids by the name of the agent."""

import json
import os

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode, format_trace_id

traces = {}


def provider(name, **exporter):
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(**exporter)))
    return provider


def plain():
    """GenAI conventions, written by hand, with both the old and the new names."""
    sender = provider("python-plain", compression=Compression.Gzip)
    tracer = sender.get_tracer("planner")
    with tracer.start_as_current_span("invoke_agent planner") as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        root.set_attribute("gen_ai.agent.name", "python-plain")
        root.set_attribute("gen_ai.prompt.0.role", "user")
        root.set_attribute("gen_ai.prompt.0.content", "sum up the sales of March, token ghp_0123456789abcdefghijABCDEFGHIJ012345")
        with tracer.start_as_current_span("execute_tool read_sheet") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "read_sheet")
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"sheet": "march"}))
        with tracer.start_as_current_span("tools/call sum") as span:
            span.set_attribute("mcp.method.name", "tools/call")
            span.set_attribute("gen_ai.tool.name", "sum")
            span.set_attribute("error.type", "ValueError")
            span.set_status(StatusCode.ERROR, "no numbers")
    traces["plain"] = format_trace_id(root.get_span_context().trace_id)
    sender.shutdown()


def openinference():
    """OpenInference's instrumentation of LangChain, around a chain that calls two tools."""
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import tool
    from openinference.instrumentation.langchain import LangChainInstrumentor

    @tool
    def search_flights(destination: str) -> str:
        """Searches flights."""
        return json.dumps({"flight": "LH-4711-" + destination})

    @tool
    def book_flight(flight: str) -> str:
        """Books a flight."""
        return "booked " + flight

    def plan(question):
        found = search_flights.invoke({"destination": "Oslo"})
        return book_flight.invoke({"flight": json.loads(found)["flight"]})

    sender = provider("python-openinference")
    LangChainInstrumentor().instrument(tracer_provider=sender)
    tracer = sender.get_tracer("outer")
    with tracer.start_as_current_span("request") as root:
        RunnableLambda(plan).with_config(run_name="planner").invoke("book me a flight to Oslo")
    traces["openinference"] = format_trace_id(root.get_span_context().trace_id)
    LangChainInstrumentor().uninstrument()
    sender.shutdown()


def langfuse():
    """The Langfuse SDK writes OpenTelemetry spans with attributes of its own; its exporter is pointed at pml."""
    from langfuse import Langfuse

    sender = provider("python-langfuse")
    client = Langfuse(
        public_key="pk-lf-test", secret_key="sk-lf-test", base_url=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
        span_exporter=OTLPSpanExporter(), tracer_provider=sender,
    )
    with client.start_as_current_observation(name="planner", as_type="agent", input="translate the letter to French") as root:
        with client.start_as_current_observation(name="translate_text", as_type="tool", input={"to": "fr"}) as call:
            call.update(output="Bonjour")
        with client.start_as_current_observation(name="save_letter", as_type="tool", input={"text": "Bonjour"}) as call:
            call.update(level="ERROR", status_message="disk full")
        traces["langfuse"] = root.trace_id
    client.flush()
    sender.shutdown()


plain()
openinference()
langfuse()
print(json.dumps(traces))
