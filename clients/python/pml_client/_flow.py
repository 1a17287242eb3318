"""Data flow between decorated functions, which pass plain values: an object that one returned and another takes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ._run import Run, Step, named

#: Results of one run that are remembered; the oldest are forgotten first.
_RESULTS_MAX = 1000
#: Shorter texts may be the same object by chance.
_TEXT_MIN = 16
_DEPTH_MAX = 4

_flows: weakref.WeakKeyDictionary[Run, Flow] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class Flow:
    """Which step of a run returned which object."""

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        # The objects are kept, so that their identities are not given away.
        self._results: dict[int, tuple[Any, Step[Any]]] = {}

    @classmethod
    def of(cls, run: Run) -> Flow:
        with _lock:
            return _flows.setdefault(run, cls(run))

    def step(
        self, name: str, function: Callable[..., Any], values: tuple[Any, ...], arguments: Mapping[str, Any]
    ) -> Step[Any]:
        run = self._run()
        assert run is not None, "the caller holds the run"
        given = named(function, values, arguments)
        return Step(run, name, given, self._sources(list(given.values())))

    def remember(self, step: Step[Any]) -> None:
        if _identifies(step.result):
            with _lock:
                self._results[id(step.result)] = (step.result, step)
                while len(self._results) > _RESULTS_MAX:
                    del self._results[next(iter(self._results))]

    def _sources(self, value: Any, depth: int = 0) -> list[Step[Any]]:
        with _lock:
            found = self._results.get(id(value))
        if found is not None:
            return [found[1]]
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
        return [step for one in inner for step in self._sources(one, depth + 1)] if depth < _DEPTH_MAX else []


def _identifies(value: Any) -> bool:
    """Whether being the same object says that it is the same result."""
    if isinstance(value, (str, bytes)):
        return len(value) >= _TEXT_MIN
    return value is not None and not isinstance(value, (bool, int, float, complex, type)) and value != ()
