"""The client: runs, questions, predictions, feedback."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._errors import PmlError
from ._flow import Flow
from ._ids import new_id, new_time
from ._run import Run, current_run
from ._schema import input_schema
from ._sender import Sender, Stats
from ._transport import connect
from .types import Discovery, Explanation, Prediction, Recorded, Suggestion, Verdict

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

#: After a prediction that did not come, none is asked for this long, in seconds.
_QUIET = 5.0


class Client:
    """A connection to pml. Reporting never blocks and never raises; questions raise `PmlError`.

    `url` is http://HOST:PORT, https://HOST or nats://HOST:PORT (with the extra `nats`); by default PML_URL, else the server on this
    machine. `key` is an API key, by default PML_KEY.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        source: str = "pml-client-python",
        agent: str | None = None,
        workspace: str = "default",
        timeout: float = 5.0,
        prediction_timeout: float = 0.5,
        buffer_events: int = 10_000,
        batch_events: int = 100,
        batch_seconds: float = 0.02,
        report_arguments: bool = True,
    ) -> None:
        self.source, self.agent, self.report_arguments = source, agent, report_arguments
        self._timeout, self._prediction_timeout = timeout, prediction_timeout
        self._transport = connect(url, key, workspace)
        sender = connect(url, key, workspace)
        self._sender = Sender(
            sender, capacity=buffer_events, batch=batch_events, interval=batch_seconds, timeout=timeout
        )
        self._quiet_until = 0.0

    def run(
        self, intent: str, *, id: str | None = None, session: str | None = None, predict: bool = False, parent: str | None = None
    ) -> Run:
        """A run, for a `with` block. With `predict`, every step first asks what pml expects (`Step.prediction`)."""
        return Run(self, intent, id=id, session=session, agent=self.agent, parent=parent, predict=predict)

    def tool(self, name: str, *, description: str | None = None, register: bool = True) -> Callable[[F], F]:
        """A decorator: calls of the function inside a run are steps of it. Outside of runs the function is as it was.

        A value that one tool returned and another takes is data flow. The function's documentation and types describe the tool.
        """

        def decorate(function: F) -> F:
            if register:
                text = description or inspect.getdoc(function) or name
                self.register(name, text, input_schema=input_schema(function))

            @functools.wraps(function)
            def call(*values: Any, **arguments: Any) -> Any:
                run = current_run()
                if run is None:
                    return function(*values, **arguments)
                flow = Flow.of(run)
                step = flow.step(name, function, values, arguments)
                with step:
                    step.result = function(*values, **arguments)
                flow.remember(step)
                return step.result

            @functools.wraps(function)
            async def call_async(*values: Any, **arguments: Any) -> Any:
                run = current_run()
                if run is None:
                    return await function(*values, **arguments)
                flow = Flow.of(run)
                step = flow.step(name, function, values, arguments)
                with step:
                    step.result = await function(*values, **arguments)
                flow.remember(step)
                return step.result

            return cast(F, call_async if inspect.iscoroutinefunction(function) else call)

        return decorate

    def register(self, tool: str, description: str, *, input_schema: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Tells pml what a tool does; that helps `discover` before it was ever called."""
        data = {"tool": tool, "description": description, "input_schema": input_schema, **more}
        self._put("tool.registered", {name: value for name, value in data.items() if value is not None})

    def feedback(self, verdict: Verdict, *, prediction: str | None = None, suggestion: str | None = None) -> None:
        """Says what became of a prediction or of a suggested plan, by its id."""
        if (prediction is None) == (suggestion is None):
            raise PmlError("feedback: give one of prediction and suggestion")
        target = {"prediction": prediction} if prediction is not None else {"suggestion": suggestion}
        self._put("feedback.given", {**target, "verdict": verdict})

    def record(self, document: Mapping[str, Any]) -> Recorded:
        """Reports a whole run as one document (POST /v1/executions) and waits for the answer."""
        return cast(Recorded, self._transport.ask("executions", document, self._timeout))

    def discover(self, intent: str, *, limit: int = 10, **more: Any) -> Discovery:
        """Tools and capabilities for an intent, with scores and reasons."""
        return cast(Discovery, self.ask("discover", {"intent": intent, "limit": limit, **more}))

    def predict(self, intent: str = "", *, context: Sequence[str] = (), limit: int = 5, **more: Any) -> Prediction:
        """The next call, given an intent and the calls so far."""
        return cast(Prediction, self.ask("predict", {"intent": intent, "context": list(context), "limit": limit, **more}))

    def suggest(self, intent: str, *, context: Sequence[str] = (), **more: Any) -> Suggestion:
        """A plan for an intent, with alternatives and what is missing."""
        return cast(Suggestion, self.ask("suggest", {"intent": intent, "context": list(context), **more}))

    def explain(self, intent: str = "", *, context: Sequence[str] = (), **more: Any) -> Explanation:
        """Why an outcome is predicted; also `prediction=ID` of one that was served, `item=` for another outcome than the first."""
        return cast(Explanation, self.ask("explain", {"intent": intent, "context": list(context), **more}))

    def ask(self, question: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Any other question by its name, such as score, speculate, related or state."""
        return self._transport.ask(question, body or {}, self._timeout)

    def subscribe(self, session: str | None = None, *, timeout: float | None = None) -> Iterator[Prediction]:
        """Predictions as they are made: after the start and after each step of the runs of a session. `timeout` is the longest silence,
        in seconds; pml itself is never silent for longer than 15."""
        return cast("Iterator[Prediction]", self._transport.predictions(session, timeout))

    def stats(self) -> Stats:
        """What became of the events: sent, refused, dropped, waiting."""
        return self._sender.stats()

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits until all that was reported is sent; false if it was not in time."""
        return self._sender.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Sends what waits and ends. Happens by itself when the program ends."""
        self._sender.close(timeout)
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _put(self, kind: str, data: Mapping[str, Any]) -> None:
        event = {"specversion": "1.0", "id": new_id(), "source": self.source, "type": f"pml.{kind}", "time": new_time()}
        self._sender.put({**event, "data": dict(data)})

    def _expected(self, intent: str, calls: Sequence[str], limit: int) -> Prediction | None:
        if time.monotonic() < self._quiet_until:
            return None
        try:
            asked = {"intent": intent, "context": list(calls), "limit": limit}
            return cast(Prediction, self._transport.ask("predict", asked, self._prediction_timeout))
        except PmlError:
            self._quiet_until = time.monotonic() + _QUIET
            return None
