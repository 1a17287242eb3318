"""Ids and times of events. Both increase within a process, so that steps keep their order."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime, timezone

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_lock = threading.Lock()
_last_ms = 0
_last_random = 0
_last_us = 0


def new_id() -> str:
    """A ULID. pml knows an event by it: the same id twice is one event."""
    global _last_ms, _last_random
    with _lock:
        ms = time.time_ns() // 1_000_000
        if ms > _last_ms:
            _last_ms, _last_random = ms, int.from_bytes(os.urandom(10), "big") >> 1
        else:
            _last_random += 1
        number = _last_ms << 80 | _last_random
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def new_time() -> str:
    """The time as RFC 3339 with microseconds, later than any before."""
    global _last_us
    with _lock:
        _last_us = max(time.time_ns() // 1_000, _last_us + 1)
        moment = datetime.fromtimestamp(_last_us // 1_000_000, timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{_last_us % 1_000_000:06d}Z"


def forget_after_fork() -> None:
    """A child process must not continue the random numbers of its parent."""
    global _last_ms
    _last_ms = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_after_fork)
