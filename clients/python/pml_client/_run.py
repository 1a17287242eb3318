"""Runs and their steps. They only put events into the buffer, so they neither block nor raise."""

from __future__ import annotations

import contextvars
import inspect
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ._ids import new_id
from .types import Prediction

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._client import Client

T = TypeVar("T")

#: Longest arguments that are reported, in bytes of JSON.
ARGUMENTS_BYTES_MAX = 65536
_DEPTH_MAX = 8
_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
    (FileNotFoundError, "not_found"),
    (LookupError, "not_found"),
    (PermissionError, "forbidden"),
)

_current_run: contextvars.ContextVar[Run | None] = contextvars.ContextVar("pml_run", default=None)
_current_step: contextvars.ContextVar[Step[Any] | None] = contextvars.ContextVar("pml_step", default=None)


def current_run() -> Run | None:
    """The run whose `with` block this code is in."""
    return _current_run.get()


def error_kind(error: BaseException) -> str:
    """A short word for a failure."""
    for kind, word in _KINDS:
        if isinstance(error, kind):
            return word
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower().removesuffix("_error")


class Step(Generic[T]):
    """A call of a tool. Passed as an argument to a later step, it stands for its result and is data flow between the two.

    With a `with` block the step ends with the block; without, by `done` or `fail`, or else with its run.
    """

    def __init__(self, run: Run, tool: str, arguments: Mapping[str, Any], depends_on: Iterable[Step[Any]]) -> None:
        self.run, self.tool = run, tool
        self.id: str = run._next_step_id()
        #: What the call returned; set it inside a `with` block if a later step takes this handle.
        self.result: T | None = None
        #: A short text about the result, for whoever looks at the trace.
        self.summary: str | None = None
        #: What pml expected before this step, if the run was started with `predict=True`.
        self.prediction: Prediction | None = None
        self._arguments = dict(arguments)
        self._depends_on = {step.id: None for step in [*depends_on, *references(self._arguments)]}
        self._begun: float | None = None
        self._ended = False
        self._tokens: list[contextvars.Token[Any]] = []
        run._add(self)

    def begin(self) -> None:
        """Reports the start; `with` does it."""
        if self._begun is None:
            self._begun = time.monotonic()
            self.run._put("step.started", {"step": self.id, "tool": self.tool})

    def done(self, result: T | None = None, *, summary: str | None = None) -> None:
        """Reports success."""
        if result is not None:
            self.result = result
        self.summary = summary or self.summary
        self._end(True, None)

    def fail(self, kind: str | BaseException = "failed") -> None:
        """Reports failure, with a short word for it or with the exception."""
        self._end(False, error_kind(kind) if isinstance(kind, BaseException) else kind)

    def _end(self, success: bool, kind: str | None) -> None:
        if self._ended:
            return
        self._ended = True
        data: dict[str, Any] = {"step": self.id, "tool": self.tool, "success": success}
        if self._depends_on:
            data["depends_on"] = list(self._depends_on)
        if self._begun is not None:
            data["duration_ms"] = round((time.monotonic() - self._begun) * 1000)
        if kind:
            data["error_kind"] = kind
        if self.summary:
            data["result_summary"] = self.summary
        if self._arguments and self.run._reports_arguments:
            data["arguments"] = plain(self._arguments)
        self.run._put("step.finished", data)
        self.run._remove(self, success)

    def __enter__(self) -> Self:
        if self.run._predicts and self.prediction is None:
            self.prediction = self.run._ask_next()
        self._enter()
        return self

    def _enter(self) -> None:
        outer = _current_step.get()
        self._outer = outer if outer is not None and outer.run is self.run else None
        self._tokens = [_current_step.set(self)]
        self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for token in self._tokens:
            _current_step.reset(token)
        if error is None:
            self.done()
        else:
            self.fail(error)
        # A step inside another one worked for it.
        if self._outer is not None:
            self._outer._depends_on[self.id] = None


class Run:
    """An execution: from its intent to its end. Made by `Client.run`; safe to use from several threads."""

    def __init__(
        self,
        client: Client,
        intent: str,
        *,
        id: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        predict: bool = False,
    ) -> None:
        self._client, self.intent, self.session = client, intent, session
        self.id = id or new_id()
        #: Set it to say that a run without an exception failed, or one with an exception succeeded.
        self.success: bool | None = None
        self.error: str | None = None
        self._predicts = predict
        self._reports_arguments = client.report_arguments
        self._lock = threading.Lock()
        self._steps = 0
        self._open: dict[str, Step[Any]] = {}
        self._calls: list[str] = []
        self._ended = False
        outer = _current_run.get()
        if parent is None and outer is not None and outer._client is client:
            parent = outer.id
        started = {"intent": intent, "session": session, "agent": agent, "parent": parent}
        self._put("execution.started", {name: value for name, value in started.items() if value is not None})

    @property
    def calls(self) -> list[str]:
        """The tools called so far, in the order the calls ended."""
        with self._lock:
            return list(self._calls)

    @overload
    def step(self, tool: str, function: None = None, /, *, depends_on: Iterable[Step[Any]] = (), **arguments: Any) -> Step[Any]: ...

    @overload
    def step(
        self, tool: str, function: Callable[..., T], /, *values: Any, depends_on: Iterable[Step[Any]] = (), **arguments: Any
    ) -> Step[T]: ...

    def step(
        self,
        tool: str,
        function: Callable[..., Any] | None = None,
        /,
        *values: Any,
        depends_on: Iterable[Step[Any]] = (),
        **arguments: Any,
    ) -> Step[Any]:
        """A call of `tool`.

        With a function, calls it and returns the handle with its `result`; handles among the arguments are replaced by their results.
        Without, returns an open step for a `with` block.
        """
        if function is None:
            return Step(self, tool, arguments, depends_on)
        step: Step[Any] = Step(self, tool, named(function, values, arguments), depends_on)
        with step:
            step.result = function(*map(resolved, values), **{name: resolved(value) for name, value in arguments.items()})
        return step

    def predict(self, limit: int = 5) -> Prediction | None:
        """What pml expects next; nothing if pml does not answer in time."""
        return self._ask_next(limit)

    def run(self, intent: str, **options: Any) -> Run:
        """A run inside this one."""
        return Run(self._client, intent, parent=self.id, **options)

    def finish(self, success: bool | None = None, error: str | None = None) -> None:
        """Reports the end; `with` does it. Steps that are still open end with it."""
        if self._ended:
            return
        self._ended = True
        success = next((said for said in (self.success, success) if said is not None), True)
        for step in list(self._open.values()):
            step._end(success, None if success else "unfinished")
        data: dict[str, Any] = {"success": success}
        if not success and (self.error or error):
            data["error"] = (self.error or error or "")[:1000]
        self._put("execution.finished", data)

    def fail(self, error: str) -> None:
        """Says that the run failed although no exception will leave it."""
        self.success, self.error = False, error

    def __enter__(self) -> Self:
        self._token = _current_run.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _current_run.reset(self._token)
        self.finish(error is None, f"{type(error).__name__}: {error}" if error is not None else None)

    def _ask_next(self, limit: int = 5) -> Prediction | None:
        return self._client._expected(self.intent, self.calls, limit)

    def _next_step_id(self) -> str:
        with self._lock:
            self._steps += 1
            return f"s{self._steps}"

    def _add(self, step: Step[Any]) -> None:
        with self._lock:
            self._open[step.id] = step

    def _remove(self, step: Step[Any], success: bool) -> None:
        with self._lock:
            self._open.pop(step.id, None)
            self._calls.append(step.tool)

    def _put(self, kind: str, data: Mapping[str, Any]) -> None:
        self._client._put(kind, {"execution": self.id, **data})


def references(value: Any, depth: int = 0) -> list[Step[Any]]:
    """The handles inside a value."""
    if isinstance(value, Step):
        return [value]
    if depth < _DEPTH_MAX:
        if isinstance(value, Mapping):
            return [step for one in value.values() for step in references(one, depth + 1)]
        if isinstance(value, (list, tuple)):
            return [step for one in value for step in references(one, depth + 1)]
    return []


def resolved(value: Any, depth: int = 0) -> Any:
    """The value with results in place of handles; values without handles as they are."""
    if isinstance(value, Step):
        return value.result
    if not references(value, depth):
        return value
    if isinstance(value, Mapping):
        return {name: resolved(one, depth + 1) for name, one in value.items()}
    return type(value)(resolved(one, depth + 1) for one in value)


def plain(arguments: Mapping[str, Any]) -> Any:
    """Arguments as JSON: a handle becomes a reference as in workflows, what is no JSON becomes its text, what is too long is left out."""

    def other(value: Any) -> str:
        return f"$OUTPUT[{value.id}]" if isinstance(value, Step) else str(value)

    try:
        text = json.dumps(arguments, default=other, skipkeys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return {"omitted": "not JSON"}
    if len(text) > ARGUMENTS_BYTES_MAX:
        return {"omitted": f"{len(text)} bytes"}
    return json.loads(text)


def named(function: Callable[..., Any], values: tuple[Any, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, as far as the function tells its names."""
    try:
        bound = inspect.signature(function).bind(*values, **arguments)
        return {name: value for name, value in bound.arguments.items() if name not in ("self", "cls")}
    except (TypeError, ValueError):
        return {**{f"argument_{at}": value for at, value in enumerate(values, 1)}, **arguments}
