"""Frames as they are read: the attempt from the headers, so that a decided one is skipped unparsed; then the body."""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from turngate.runtime.errors import Poison
from turngate.runtime.records import InputRecord
from turngate.schemas.codec import decode
from turngate.schemas.envelope import GENERATION_HEADER, OPERATION_HEADER, RELAY_HEADER, conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, Frame, ResolveFrame

SCHEMAS = ("StreamBegin.v1", "StreamEnd.v1", "StreamResolve.v1")
OPERATION_BYTES_MAX = 256
ATTEMPT_HEADERS = (OPERATION_HEADER, GENERATION_HEADER, RELAY_HEADER)
NUMBER = re.compile(rb"[0-9]{1,15}")
"""A generation or relay in a header: what a record's integer can be, without sign or space."""


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """Which relay of which attempt a frame belongs to."""

    operation_id: str
    generation: int
    relay: int


def attempt_of(record: InputRecord) -> AttemptRef:
    """The attempt a frame's headers name; from the body where a writer left them out or wrote them wrong.

    Raises Poison where neither tells.
    """
    found = {name: value or b"" for name, value in record.headers if name.startswith("turngate_")}
    operation, generation, relay = (found.get(name, b"") for name in ATTEMPT_HEADERS)
    if 0 < len(operation) <= OPERATION_BYTES_MAX and NUMBER.fullmatch(generation) and NUMBER.fullmatch(relay):
        try:
            return AttemptRef(operation.decode(), int(generation), int(relay))
        except UnicodeDecodeError:
            pass
    frame = parse(record)
    return AttemptRef(frame.operation_id, frame.generation, frame.relay)


def is_of(frame: Frame, ref: AttemptRef) -> bool:
    """Whether a frame's body names the attempt its headers name."""
    return (frame.operation_id, frame.generation, frame.relay) == (ref.operation_id, ref.generation, ref.relay)


def parse(record: InputRecord) -> Frame:
    """The frame's body. Raises Poison (not a frame, or its key is not its conversation's)."""
    try:
        frame = _events(record.value) or decode_any(record.value, SCHEMAS)
    except (InvalidRecord, UnknownSchema) as error:
        raise Poison(record, error.code, str(error)) from None
    assert isinstance(frame, BeginFrame | EventsFrame | EndFrame | ResolveFrame)
    if record.key != conversation_key(frame.tenant, frame.conversation):
        raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
    return frame


def _events(value: bytes | None) -> EventsFrame | None:
    """The hot path: an events frame checked field by field instead of by pydantic; None for any other schema."""
    if value is None:
        raise InvalidRecord("record has no value", code="null_value")
    try:
        plain = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise InvalidRecord("record is not JSON", code="malformed_json") from None
    if not isinstance(plain, dict):
        raise InvalidRecord("record is not a JSON object", code="malformed_json")
    if plain.get("schema") != "StreamEvents.v1":
        return None
    events: object = plain.get("events")
    texts = ("tenant", "conversation", "operationId", "profile")
    numbers = ("generation", "relay", "firstSeq")
    whole = (
        isinstance(events, list)
        and all(type(event) is str for event in events)
        and all(type(plain.get(name)) is str for name in texts)
        and all(type(plain.get(name)) is int and plain[name] >= 0 for name in numbers)
    )
    if not whole or not isinstance(events, list):
        # The slow way names the field; what it would let pass (a number in quotes, say) is refused all the same.
        decode(EventsFrame, value)
        raise InvalidRecord("StreamEvents: a field is missing or of another type")
    return EventsFrame.model_construct(
        tenant=plain["tenant"],
        conversation=plain["conversation"],
        operation_id=plain["operationId"],
        generation=plain["generation"],
        relay=plain["relay"],
        handle=plain.get("handle"),
        profile=plain["profile"],
        first_seq=plain["firstSeq"],
        events=tuple(events),
    )
