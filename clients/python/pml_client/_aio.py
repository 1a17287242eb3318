"""The client for asyncio. Reporting is the same, since it never waits; questions run on a thread, so that they block no task."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._client import Client, F
from ._run import Run, Step, named, resolved
from ._sender import Stats
from .types import Discovery, Explanation, Prediction, Recorded, Suggestion, Verdict

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class AsyncStep(Step[T]):
    """A step for `async with`, or to be awaited if it was made with a function."""

    _call: Callable[[], Awaitable[T] | T] | None = None

    async def __aenter__(self) -> Self:
        if self.run._predicts and self.prediction is None:
            self.prediction = await asyncio.to_thread(self.run._ask_next)
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __await__(self) -> Generator[Any, None, AsyncStep[T]]:
        return self._run_call().__await__()

    async def _run_call(self) -> AsyncStep[T]:
        if self._call is not None:
            async with self:
                result = self._call()
                self.result = await result if inspect.isawaitable(result) else result
        return self


class AsyncRun(Run):
    """A run for `async with`. `await run.step("tool", function, ...)` calls a function or coroutine function."""

    def step(
        self,
        tool: str,
        function: Callable[..., Any] | None = None,
        /,
        *values: Any,
        depends_on: Iterable[Step[Any]] = (),
        **arguments: Any,
    ) -> AsyncStep[Any]:
        if function is None:
            return AsyncStep(self, tool, arguments, depends_on)
        step: AsyncStep[Any] = AsyncStep(self, tool, named(function, values, arguments), depends_on)
        step._call = lambda: function(*map(resolved, values), **{name: resolved(one) for name, one in arguments.items()})
        return step

    async def predict(self, limit: int = 5) -> Prediction | None:  # type: ignore[override]
        return await asyncio.to_thread(self._ask_next, limit)

    def run(self, intent: str, **options: Any) -> AsyncRun:
        return AsyncRun(self._client, intent, parent=self.id, **options)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class AsyncClient:
    """As `Client`, for asyncio; the arguments are the same."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._client = Client(url, **options)

    def run(
        self, intent: str, *, id: str | None = None, session: str | None = None, predict: bool = False, parent: str | None = None
    ) -> AsyncRun:
        return AsyncRun(self._client, intent, id=id, session=session, agent=self._client.agent, parent=parent, predict=predict)

    def tool(self, name: str, **options: Any) -> Callable[[F], F]:
        return self._client.tool(name, **options)

    def register(self, tool: str, description: str, **more: Any) -> None:
        self._client.register(tool, description, **more)

    def feedback(self, verdict: Verdict, *, prediction: str | None = None, suggestion: str | None = None) -> None:
        self._client.feedback(verdict, prediction=prediction, suggestion=suggestion)

    async def record(self, document: Mapping[str, Any]) -> Recorded:
        return await asyncio.to_thread(self._client.record, document)

    async def discover(self, intent: str, *, limit: int = 10, **more: Any) -> Discovery:
        return await asyncio.to_thread(self._client.discover, intent, limit=limit, **more)

    async def predict(self, intent: str = "", *, context: Sequence[str] = (), limit: int = 5, **more: Any) -> Prediction:
        return await asyncio.to_thread(self._client.predict, intent, context=context, limit=limit, **more)

    async def suggest(self, intent: str, *, context: Sequence[str] = (), **more: Any) -> Suggestion:
        return await asyncio.to_thread(self._client.suggest, intent, context=context, **more)

    async def explain(self, intent: str = "", *, context: Sequence[str] = (), **more: Any) -> Explanation:
        return await asyncio.to_thread(self._client.explain, intent, context=context, **more)

    async def ask(self, question: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return await asyncio.to_thread(self._client.ask, question, body)

    async def subscribe(self, session: str | None = None, *, timeout: float | None = None) -> AsyncIterator[Prediction]:
        predictions = self._client.subscribe(session, timeout=timeout)
        ended = object()
        while (prediction := await asyncio.to_thread(next, predictions, ended)) is not ended:
            yield cast(Prediction, prediction)

    def stats(self) -> Stats:
        return self._client.stats()

    async def flush(self, timeout: float = 5.0) -> bool:
        return await asyncio.to_thread(self._client.flush, timeout)

    async def close(self, timeout: float = 2.0) -> None:
        await asyncio.to_thread(self._client.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
