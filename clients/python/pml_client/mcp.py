"""MCP: `calls = Calls(session, run, "fs")`, then `await calls.call_tool("list", {...})` calls the tool and reports it as the step `fs:list`."""

from __future__ import annotations

from typing import Any, Protocol

from ._run import Run, Step, resolved


class Session(Protocol):
    """`mcp.Client` or `mcp.ClientSession`, of any version."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any: ...


class Calls:
    """The calls of a session, each a step of a run. Handles of steps may stand among the arguments, for their results."""

    def __init__(self, session: Session, run: Run, server: str) -> None:
        self._session, self._run, self._server = session, run, server
        #: The step of the last call, to be passed on as data flow.
        self.last: Step[Any] | None = None

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
        step: Step[Any] = Step(self._run, f"{self._server}:{name}", arguments or {}, ())
        with step:
            result = await self._session.call_tool(name, resolved(arguments or {}), **more)
            step.result = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None) or result
            if getattr(result, "is_error", None) or getattr(result, "isError", None):
                step.fail("tool_error")
        self.last = step
        return result
