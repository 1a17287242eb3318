"""The answers of pml. Members that a newer server adds are there too; type checkers do not know them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Verdict = Literal["accepted", "ignored", "rejected"]


class Reason(TypedDict):
    signal: str
    value: float
    weight: float
    adds: float


class _RankedRequired(TypedDict):
    item: str
    p: float


class Ranked(_RankedRequired, total=False):
    type: Literal["tool", "capability", "done"]
    reasons: list[Reason]
    #: Of a capability: its readable name, which every question takes.
    handle: str
    name: str
    tools: list[str]


class _PredictionRequired(TypedDict):
    ranked: list[Ranked]
    threshold: float
    decision: Literal["emit", "hold"]
    model: str
    based_on_seq: int


class Prediction(_PredictionRequired, total=False):
    unknown: list[str]
    #: Of predictions that were subscribed to: for `Client.feedback`.
    prediction: str
    execution: str
    session: str
    cause: str


class _FoundRequired(TypedDict):
    type: Literal["tool", "capability"]
    id: str
    name: str
    description: str
    score: float
    signals: dict[str, float]
    semantic_score: float
    success_rate: float
    usage_count: int


class Found(_FoundRequired, total=False):
    handle: str
    registered: bool
    similar_intent: str
    server_id: str
    input_schema: Any
    tools: list[str]


class Discovery(TypedDict):
    results: list[Found]
    meta: dict[str, Any]


class _ArgumentRequired(TypedDict):
    name: str
    required: bool


class Argument(_ArgumentRequired, total=False):
    type: str
    fed_by: int


class Task(TypedDict):
    tool: str
    p: float
    depends_on: list[int]
    layer: int
    repeated: bool
    arguments: list[Argument]


class Plan(TypedDict):
    #: For `Client.feedback`.
    id: str
    tasks: list[Task]
    confidence: float
    origin: str
    rationale: list[str]


class _SuggestionRequired(TypedDict):
    plan: Plan | None
    sure: bool
    threshold: float
    alternatives: list[Plan]
    missing: list[dict[str, Any]]
    suggested_capabilities: list[str]
    based_on_seq: int


class Suggestion(_SuggestionRequired, total=False):
    #: The readable names of capabilities, by `capability:<id>`.
    handles: dict[str, str]


class _ExplanationRequired(TypedDict):
    item: str
    p: float
    rank: int
    reasons: list[Reason]
    score: float
    taught: list[dict[str, Any]]
    intent: str
    context: list[str]
    now: Prediction


class Explanation(_ExplanationRequired, total=False):
    clause: str
    served: dict[str, Any]


class Recorded(TypedDict):
    execution: str
    accepted: int
    duplicate: int
    refused: int
    results: list[dict[str, Any]]
