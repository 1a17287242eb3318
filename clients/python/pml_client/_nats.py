"""NATS: events go to the work queue, which keeps them while pml is away; questions to the service. Needs the extra `nats`."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from ._errors import PmlError, Refused, Unreachable
from ._transport import Json

try:
    import nats
    from nats.errors import Error as NatsError
except ImportError as missing:
    raise PmlError("url: nats:// needs nats-py; install pml-client[nats]") from missing

T = TypeVar("T")


class NatsTransport:
    """One connection, on the event loop of a thread of its own."""

    def __init__(self, url: str, workspace: str) -> None:
        self.url, self._prefix = url, f"pml.{workspace}"
        self._loop = asyncio.new_event_loop()
        self._lock: asyncio.Lock | None = None
        self._client: Any = None
        threading.Thread(target=self._loop.run_forever, name="pml-nats", daemon=True).start()

    def publish(self, events: Sequence[Json], timeout: float) -> list[Json]:
        return self._wait(self._publish(events, timeout), timeout)

    def ask(self, question: str, body: Mapping[str, Any], timeout: float) -> Json:
        if question == "executions":
            raise PmlError("record: whole runs are taken over HTTP only")
        return self._wait(self._ask(question, body, timeout), timeout)

    def predictions(self, session: str | None, timeout: float | None) -> Iterator[Json]:
        arrived: queue.Queue[Json] = queue.Queue(256)
        subject = f"{self._prefix}.predict.{_token(session) if session else '>'}"
        subscription = self._wait(self._subscribe(subject, arrived), 5.0)
        return self._heard(subscription, arrived, timeout)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._wait(client.close(), 2.0)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _heard(self, subscription: Any, arrived: queue.Queue[Json], timeout: float | None) -> Iterator[Json]:
        try:
            while True:
                yield arrived.get(timeout=timeout)
        except queue.Empty:
            raise Unreachable(f"{self.url}: no prediction within {timeout} s") from None
        finally:
            self._wait(subscription.unsubscribe(), 2.0)

    def _wait(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout + 1.0)
        except (NatsError, OSError, FutureTimeout, asyncio.TimeoutError) as error:
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error

    async def _connected(self) -> Any:
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._client is None:
                self._client = await nats.connect(self.url, allow_reconnect=True, max_reconnect_attempts=-1, connect_timeout=2)
            return self._client

    async def _publish(self, events: Sequence[Json], timeout: float) -> list[Json]:
        stream = (await self._connected()).jetstream()

        async def one(event: Json) -> Json:
            headers = {"Nats-Msg-Id": event["id"], "content-type": "application/cloudevents+json"}
            subject = f"{self._prefix}.in.{event['type'].removeprefix('pml.')}"
            await stream.publish(subject, json.dumps(event).encode(), headers=headers, timeout=timeout)
            return {"status": "accepted"}

        return list(await asyncio.gather(*map(one, events)))

    async def _ask(self, question: str, body: Mapping[str, Any], timeout: float) -> Json:
        client = await self._connected()
        answer = await client.request(f"{self._prefix}.q.{question}", json.dumps(body).encode(), timeout=timeout)
        problem = (answer.headers or {}).get("Nats-Service-Error")
        if problem:
            raise Refused(int(answer.headers.get("Nats-Service-Error-Code", "400")), problem)
        return dict(json.loads(answer.data))

    async def _subscribe(self, subject: str, arrived: queue.Queue[Json]) -> Any:
        client = await self._connected()

        async def take(message: Any) -> None:
            if not arrived.full():
                arrived.put_nowait(json.loads(message.data))

        subscription = await client.subscribe(subject, cb=take)
        await client.flush()
        return subscription


def _token(session: str) -> str:
    """A session as part of a subject: letters, digits, - and _ as they are, any other byte as =XX."""
    plain = set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    return "".join(chr(byte) if byte in plain else f"={byte:02X}" for byte in session.encode())
