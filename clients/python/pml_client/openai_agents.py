"""OpenAI Agents: `Runner.run(agent, question, hooks=PmlHooks(run))` inside `with pml.run(question) as run` reports tools as steps."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, RunContextWrapper, RunHooks, Tool

from ._run import Run, Step


class PmlHooks(RunHooks[Any]):
    """`server` stands before the names of tools: `get_weather` is `openai:get_weather`."""

    def __init__(self, run: Run, *, server: str = "openai") -> None:
        self._run, self._server = run, server
        self._steps: dict[str, Step[Any]] = {}

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        try:
            arguments = json.loads(getattr(context, "tool_arguments", None) or "{}")
        except ValueError:
            arguments = {}
        step: Step[Any] = Step(self._run, f"{self._server}:{tool.name}", arguments, ())
        step.begin()
        self._steps[_call(context, tool)] = step

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        step = self._steps.pop(_call(context, tool), None)
        if step is not None:
            step.done()


def _call(context: RunContextWrapper[Any], tool: Tool) -> str:
    return str(getattr(context, "tool_call_id", None) or tool.name)
