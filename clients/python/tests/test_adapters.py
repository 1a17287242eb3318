"""The adapters with the packages they are for: LangChain, OpenAI Agents, MCP. No model is asked."""

from __future__ import annotations

import unittest
from typing import Any

import pml_client.mcp
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from mcp import Client as McpClient
from mcp.server import MCPServer
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pml_client.langchain import PmlCallback
from pml_client.openai_agents import PmlHooks

from support import ClientCase, eventually, get, records, trace


class LangChain(ClientCase):
    def run_of(self, chain: Any, question: Any) -> dict[str, Any]:
        started: list[str] = []
        begin = self.pml.run

        def run(*given: Any, **options: Any) -> Any:
            made = begin(*given, **options)
            started.append(made.id)
            return made

        self.pml.run = run  # type: ignore[method-assign]
        try:
            chain.invoke(question, config={"callbacks": [PmlCallback(self.pml)]})
        except ValueError:
            pass
        self.sent()
        self.assertEqual(len(started), 1)
        return trace(started[0])

    def test_the_tools_of_a_chain_are_steps_of_one_run(self) -> None:
        @tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sun in {city}"

        @tool
        def send(text: str) -> str:
            """Sends a text."""
            return "sent"

        chain = RunnableLambda(lambda asked: {"city": asked["input"]}) | get_weather | RunnableLambda(lambda text: {"text": text}) | send
        found = self.run_of(chain, {"input": "Paris"})
        self.assertEqual([step["tool"] for step in found["steps"]], ["langchain:get_weather", "langchain:send"])
        self.assertEqual((found["intent"], found["success"]), ("Paris", True))
        alone = self.run_of(get_weather, {"city": "Rome"})
        self.assertEqual([step["tool"] for step in alone["steps"]], ["langchain:get_weather"])

    def test_a_tool_that_raises_is_a_failed_step(self) -> None:
        @tool
        def broken(text: str) -> str:
            """Fails."""
            raise ValueError("no")

        found = self.run_of(RunnableLambda(lambda text: {"text": text}) | broken, "try it")
        self.assertEqual((found["success"], found["steps"][0]["error_kind"]), (False, "value"))


class Script(Model):
    """A model that answers what it was told to."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def get_response(self, *given: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=[self._answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *given: Any, **options: Any) -> Any:
        raise NotImplementedError


class OpenAiAgents(ClientCase):
    def test_the_tools_of_an_agent_are_steps(self) -> None:
        @function_tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sun in {city}"

        call = ResponseFunctionToolCall(call_id="c1", name="get_weather", arguments='{"city": "Paris"}', type="function_call")
        said = ResponseOutputText(text="Sun.", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m1", content=[said], role="assistant", status="completed", type="message")
        agent = Agent(name="a", tools=[get_weather], model=Script(call, message))
        with self.pml.run("weather in Paris") as run:
            result = Runner.run_sync(agent, "weather in Paris", hooks=PmlHooks(run), run_config=RunConfig(tracing_disabled=True))
        self.assertEqual(result.final_output, "Sun.")
        self.sent()
        self.assertEqual([step["tool"] for step in trace(run.id)["steps"]], ["openai:get_weather"])
        finished = next(record for record in records(run.id) if record["type"] == "pml.step.finished")
        self.assertEqual(finished["data"]["arguments"], {"city": "Paris"})


class Mcp(ClientCase, unittest.IsolatedAsyncioTestCase):
    async def test_the_calls_of_a_session_are_steps(self) -> None:
        server = MCPServer("files")

        @server.tool()
        def read(path: str) -> str:
            """Reads a file."""
            if path == "missing":
                raise FileNotFoundError(path)
            return f"content of {path}"

        async with McpClient(server) as session:
            with self.pml.run("read files") as run:
                calls = pml_client.mcp.Calls(session, run, "files")
                await calls.call_tool("read", {"path": "a"})
                await calls.call_tool("read", {"path": calls.last})
                await calls.call_tool("read", {"path": "missing"})
        self.sent()
        steps = trace(run.id)["steps"]
        self.assertEqual([step["tool"] for step in steps], ["files:read"] * 3)
        self.assertEqual([step["success"] for step in steps], [True, False, False])
        self.assertEqual([step["depends_on"] for step in steps], [[], ["s1"], []])
        eventually(lambda: get("/v1/state"))


if __name__ == "__main__":
    unittest.main()
