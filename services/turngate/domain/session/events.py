"""One record of session-events, as little of it as the projection needs.

Complete events are checked as records. Previews, which come by the thousand, are only checked for the fields that
decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import orjson

from turngate.schemas.base import MAX_SAFE_INTEGER
from turngate.schemas.codec import decode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.session import SessionEvent

ATTEMPT_PARTIALS = frozenset({"partial_thinking", "partial_text", "partial_tool_call"})
STEPS = frozenset({"start", "delta", "stop"})


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What decides about an event.

    operation is '' where the event belongs to no attempt. ordinal: of a complete event of an attempt. offset, length:
    of a text delta, in code points (offset None: it follows what came before); of a tool call's delta, offset is its
    byte count and length 0.
    """

    tenant: str
    conversation: str
    type: str
    event_id: str
    operation: str = ""
    generation: int = 0
    relay: int | None = None
    ordinal: int | None = None
    block: int | None = None
    step: str = ""
    offset: int | None = None
    length: int = 0
    trace_only: bool = False

    @property
    def is_preview(self) -> bool:
        """A revocable event of an attempt."""
        return self.type in ATTEMPT_PARTIALS


def read_event(value: bytes | None) -> StreamEvent:
    """Reads one record's value, which must be one line. Raises InvalidRecord or UnknownSchema; neither quotes it."""
    if value is None:
        raise InvalidRecord("record has no value", code="null_value")
    if b"\n" in value or b"\r" in value:
        raise InvalidRecord("a session event is one line of JSON", code="not_one_line")
    try:
        plain = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise InvalidRecord("record is not JSON", code="malformed_json") from None
    if isinstance(plain, dict):
        fields = cast("dict[str, object]", plain)
        if fields.get("type") in ATTEMPT_PARTIALS:
            return _preview(fields)
    return _whole(decode(SessionEvent, value))


def _preview(fields: dict[str, object]) -> StreamEvent:
    if fields.get("schema") != "SessionEvent.v1":
        raise UnknownSchema("expected schema SessionEvent.v1")
    kind, step = _text(fields, "type"), _text(fields, "step")
    if step not in STEPS:
        raise InvalidRecord("SessionEvent: field step is invalid", path="step")
    offset, length = None, 0
    if kind == "partial_tool_call":
        offset = _count(fields, "byteCount") if "byteCount" in fields else None
    elif step == "delta":
        offset = _count(fields, "textOffset") if "textOffset" in fields else None
        length = len(_text(fields, "text"))
    return StreamEvent(
        tenant=_text(fields, "tenant"),
        conversation=_text(fields, "conversation"),
        type=kind,
        event_id=_text(fields, "eventId"),
        operation=_text(fields, "operationId"),
        generation=_count(fields, "generation"),
        relay=_count(fields, "relay"),
        block=_count(fields, "blockIndex"),
        step=step,
        offset=offset,
        length=length,
    )


def _whole(event: SessionEvent) -> StreamEvent:
    return StreamEvent(
        tenant=event.tenant,
        conversation=event.conversation,
        type=event.type,
        event_id=event.event_id,
        operation=event.operation_id or "",
        generation=event.generation or 0,
        relay=event.relay,
        ordinal=event.ordinal,
        block=event.block_index,
        trace_only=event.trace_only or False,
    )


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRecord(f"SessionEvent: field {name} is invalid", path=name)
    return value


def _count(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SAFE_INTEGER:
        raise InvalidRecord(f"SessionEvent: field {name} is invalid", path=name)
    return value
