"""JSON Schemas of the arguments of functions, as far as their types tell."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def input_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The schema of a function's arguments; nothing if it does not tell them."""
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return None
    wanted = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    properties = {one.name: _schema(hints.get(one.name)) for one in wanted if one.name not in ("self", "cls")}
    required = [one.name for one in wanted if one.default is one.empty and one.name in properties]
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any) -> dict[str, Any]:
    origin = typing.get_origin(hint) or hint
    if origin in (Sequence, tuple, set):
        origin = list
    elif origin is Mapping:
        origin = dict
    return {"type": _TYPES[origin]} if origin in _TYPES else {}
