"""SessionEvent.v1: the totally ordered stream of a conversation (DESIGN §9).

One event is one line of JSON. `type` says which; the fields an event of a type must carry are listed in
EVENT_FIELDS and checked at construction, so an event that lacks them cannot exist.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from turngate.schemas.base import Count, Digest, Generation, Identifier, Millis, Name, Record
from turngate.schemas.blocks import ResultStatus

EventType = Literal[
    "request_begin",
    "partial_thinking",
    "partial_text",
    "partial_tool_call",
    "thinking",
    "text",
    "tool_call",
    "token_usage",
    "request_end",
    "turn_committed",
    "preview_retracted",
    "approval_requested",
    "approval_decision",
    "partial_tool_call_output",
    "tool_call_output",
    "abort",
    "length_notice",
    "compaction_begin",
    "compaction_end",
    "subagent",
    "prompt",
    "session_meta",
]

PARTIALS = frozenset({"partial_thinking", "partial_text", "partial_tool_call", "partial_tool_call_output"})
"""Revocable events: never in the trace, no ordinal."""

EVENT_FIELDS: dict[str, tuple[str, ...]] = {
    "request_begin": ("operation_id", "generation", "ordinal"),
    "partial_thinking": ("operation_id", "generation", "relay", "block_index", "step"),
    "partial_text": ("operation_id", "generation", "relay", "block_index", "step"),
    "partial_tool_call": ("operation_id", "generation", "relay", "block_index", "step"),
    "thinking": ("operation_id", "generation", "block_index", "text", "ordinal"),
    "text": ("operation_id", "generation", "block_index", "text", "ordinal"),
    "tool_call": ("operation_id", "generation", "block_index", "call_id", "tool", "arguments_raw", "ordinal"),
    "token_usage": ("operation_id", "generation", "usage_raw", "ordinal"),
    "request_end": ("operation_id", "generation", "status", "ordinal"),
    "turn_committed": ("revision", "kind", "turn_digest"),
    "preview_retracted": ("operation_id", "generation", "reason"),
    "approval_requested": ("call_key", "call_id", "tool", "revision"),
    "approval_decision": ("call_key", "call_id", "decision", "revision"),
    "partial_tool_call_output": ("call_key", "call_id", "step"),
    "tool_call_output": ("call_key", "call_id", "result_status", "result_id", "text", "revision"),
    "abort": ("control_id",),
    "length_notice": ("revision",),
    "compaction_begin": ("revision",),
    "compaction_end": ("revision", "status"),
    "subagent": ("child",),
    "prompt": ("revision", "turn_digest"),
    "session_meta": (),
}

RequestStatus = Literal["completed", "failed", "timeout", "malformed", "aborted"]


class SessionEvent(Record):
    """One event of the session stream.

    ordinal: place among the complete events of an attempt, from 0. step: start, delta or stop of a partial.
    text_offset: where a text delta begins, in Unicode code points of its block. byte_count: argument bytes
    so far.
    trace_only: goes to the trace and is never streamed. origin: child ids, outermost first.
    retry_in_ms: on request_end, when the next generation is due (absent: none follows).
    """

    SCHEMA: ClassVar[str] = "SessionEvent"
    schema_: Literal["SessionEvent.v1"] = Field(default="SessionEvent.v1", alias="schema")
    tenant: Name
    conversation: Name
    type: EventType
    event_id: Identifier
    at_ms: Millis | None = None
    operation_id: Identifier | None = None
    generation: Generation | None = None
    relay: Count | None = None
    ordinal: Count | None = None
    revision: Count | None = None
    kind: Literal["input", "assistant", "tool"] | None = None
    block_index: Count | None = None
    step: Literal["start", "delta", "stop"] | None = None
    text: str | None = None
    text_offset: Count | None = None
    byte_count: Count | None = None
    call_id: Identifier | None = None
    call_key: Identifier | None = None
    tool: Identifier | None = None
    arguments_raw: str | None = None
    usage_raw: str | None = None
    status: RequestStatus | None = None
    result_status: ResultStatus | None = None
    result_id: Identifier | None = None
    decision: Literal["approved", "denied"] | None = None
    reason: Identifier | None = None
    retry_in_ms: Millis | None = None
    turn_digest: Digest | None = None
    control_id: Identifier | None = None
    child: Identifier | None = None
    origin: tuple[Identifier, ...] | None = None
    trace_only: bool | None = None

    @model_validator(mode="after")
    def _fields_of_type(self) -> Self:
        missing = [name for name in EVENT_FIELDS[self.type] if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{self.type} needs {', '.join(missing)}")
        return self
