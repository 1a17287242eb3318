"""LangChain: `chain.invoke(question, config={"callbacks": [PmlCallback(pml)]})` reports the outermost chain as a run and its tools as steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from ._client import Client
from ._run import Run, Step


class PmlCallback(BaseCallbackHandler):
    """`server` stands before the names of tools that have none: `get_weather` is `langchain:get_weather`."""

    def __init__(self, client: Client, *, intent: str | None = None, session: str | None = None, server: str = "langchain") -> None:
        self._client, self._intent, self._session, self._server = client, intent, session, server
        self._runs: dict[UUID, Run] = {}
        self._steps: dict[UUID, Step[Any]] = {}

    def on_chain_start(
        self, serialized: dict[str, Any], inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        self._begin(inputs, run_id, parent_run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        self._finish(run_id, parent_run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        self._finish(run_id, parent_run_id, error)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        run = self._begin(input_str, run_id, parent_run_id)
        name = str((serialized or {}).get("name") or more.get("name") or "tool")
        step: Step[Any] = Step(run, name if ":" in name else f"{self._server}:{name}", inputs or {"input": input_str}, ())
        step.begin()
        self._steps[run_id] = step

    def on_tool_end(self, output: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        step = self._steps.pop(run_id, None)
        if step is not None:
            step.fail("error") if getattr(output, "status", None) == "error" else step.done()
        self._finish(run_id, parent_run_id, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        step = self._steps.pop(run_id, None)
        if step is not None:
            step.fail(error)
        self._finish(run_id, parent_run_id, error)

    def _begin(self, inputs: Any, run_id: UUID, parent: UUID | None) -> Run:
        """The run of a call: that of the call around it, or a new one."""
        run = self._runs.get(parent) if parent is not None else None
        if run is None:
            run = self._client.run(self._intent or _words(inputs), session=self._session)
        self._runs[run_id] = run
        return run

    def _finish(self, run_id: UUID, parent: UUID | None, error: BaseException | None) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None and (parent is None or parent not in self._runs):
            run.finish(error is None, f"{type(error).__name__}: {error}" if error is not None else None)


def _words(inputs: Any) -> str:
    """The text of what a chain was asked."""
    if isinstance(inputs, dict):
        known = next((inputs[name] for name in ("input", "question", "query", "messages") if name in inputs), None)
        inputs = known if known is not None else next(iter(inputs.values()), "")
    if isinstance(inputs, (list, tuple)):
        inputs = inputs[-1] if inputs else ""
        inputs = inputs[-1] if isinstance(inputs, tuple) else inputs
    text = getattr(inputs, "content", inputs)
    return str(text) or "a chain"
