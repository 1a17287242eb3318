"""The buffer between an agent and pml, and the thread that empties it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ._errors import PmlError, TooLarge
from ._transport import Json, Transport

logger = logging.getLogger("pml_client")

#: First and longest pause before a batch is sent again, in seconds.
_PAUSE, _PAUSE_MAX = 0.1, 5.0
#: Refusals that say "later": the event is valid.
_TEMPORARY = {"too_many_open"}
#: Refusals that are kept for `Stats.refusals`.
_REFUSALS_MAX = 100


@dataclass(frozen=True)
class Stats:
    """What became of the events so far."""

    #: In pml's log.
    sent: int
    #: Not accepted by pml; `refusals` holds the newest reasons.
    refused: int
    #: Lost because the buffer was full, or because pml was away when the program ended.
    dropped: int
    #: In the buffer.
    waiting: int
    refusals: Sequence[str]


class Sender:
    """Sends events in batches, again with the same ids after a failure. `put` never blocks."""

    def __init__(self, transport: Transport, *, capacity: int, batch: int, interval: float, timeout: float) -> None:
        self._transport = transport
        self._capacity, self._batch, self._interval, self._timeout = capacity, batch, interval, timeout
        self._changed = threading.Condition()
        self._reset()
        atexit.register(self.close)

    def _reset(self) -> None:
        self._events: deque[Json] = deque()
        #: Taken from the buffer and not yet answered.
        self._in_hand = 0
        self._sent = self._refused = self._dropped = 0
        self._refusals: deque[str] = deque(maxlen=_REFUSALS_MAX)
        self._hurry = 0
        #: When to give up, by the monotonic clock; set by `close`.
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def put(self, event: Json) -> bool:
        """Takes an event; false if it had to be dropped."""
        if self._process != os.getpid():
            # In a forked child the thread and its locks are gone; what waited belongs to the parent.
            self._changed = threading.Condition()
            self._reset()
        with self._changed:
            if self._deadline is not None or len(self._events) + self._in_hand >= self._capacity:
                self._dropped += 1
                return False
            self._events.append(event)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pml-client", daemon=True)
                self._thread.start()
            elif len(self._events) in (1, self._batch):
                self._changed.notify_all()
        return True

    def flush(self, timeout: float) -> bool:
        """Waits until everything is sent; false if that took longer than `timeout` seconds."""
        with self._changed:
            self._hurry += 1
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._events and not self._in_hand, timeout)
            self._hurry -= 1
            return done

    def close(self, timeout: float = 2.0) -> None:
        """Sends what waits, for `timeout` seconds at most; the rest is dropped and counted."""
        atexit.unregister(self.close)
        with self._changed:
            self._deadline = time.monotonic() + timeout
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread() and self._process == os.getpid():
            # The request under way ends with its own time.
            thread.join(timeout + self._timeout + 1.0)

    def stats(self) -> Stats:
        with self._changed:
            waiting = len(self._events) + self._in_hand
            return Stats(self._sent, self._refused, self._dropped, waiting, tuple(self._refusals))

    def _work(self) -> None:
        while batch := self._take():
            self._deliver(batch)
            with self._changed:
                self._in_hand = 0
                self._changed.notify_all()
        self._transport.close()

    def _take(self) -> list[Json]:
        """The next batch, when it is full or has waited long enough; nothing when the sender is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._deadline is not None)
            self._changed.wait_for(
                lambda: len(self._events) >= self._batch or self._hurry or self._deadline is not None, self._interval
            )
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._dropped += len(self._events)
                self._events.clear()
            batch = [self._events.popleft() for _ in range(min(self._batch, len(self._events)))]
            self._in_hand = len(batch)
            return batch

    def _deliver(self, batch: list[Json]) -> None:
        pause = _PAUSE
        while batch:
            try:
                batch = self._settle(batch, self._transport.publish(batch, self._timeout))
                if not batch:
                    return
            except TooLarge as error:
                if len(batch) == 1:
                    self._give_up(1, str(error))
                    return
                self._deliver(batch[: len(batch) // 2])
                batch = batch[len(batch) // 2 :]
                continue
            except PmlError as error:
                logger.debug("events wait: %s", error)
            with self._changed:
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    self._dropped += len(batch)
                    return
                left = pause if self._deadline is None else min(pause, self._deadline - time.monotonic())
                closing = self._deadline is not None
                self._changed.wait_for(lambda: (self._deadline is not None) != closing, max(left, 0.0))
            pause = min(pause * 2, _PAUSE_MAX)

    def _settle(self, batch: list[Json], results: Sequence[Json]) -> list[Json]:
        """Counts what was answered and returns the events that are to be sent again."""
        again = []
        with self._changed:
            for event, result in zip(batch, results):
                error = result.get("error")
                if error is None:
                    self._sent += 1
                elif error.get("reason") in _TEMPORARY:
                    again.append(event)
                else:
                    self._refused += 1
                    self._refusals.append(f"{event['type']}: {error.get('message')}")
                    logger.warning("pml refused an event: %s: %s", event["type"], error.get("message"))
        return again

    def _give_up(self, count: int, reason: str) -> None:
        with self._changed:
            self._refused += count
            self._refusals.append(reason)
        logger.warning("pml refused an event: %s", reason)
