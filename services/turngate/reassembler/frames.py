"""Frames as they are read: the attempt from the headers, so that a decided one is skipped unparsed; then the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import orjson

from turngate.runtime.errors import Poison
from turngate.runtime.records import InputRecord
from turngate.schemas.codec import decode
from turngate.schemas.envelope import GENERATION_HEADER, OPERATION_HEADER, RELAY_HEADER, conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, ResolveFrame

SCHEMAS = ("StreamBegin.v1", "StreamEnd.v1", "StreamResolve.v1")
OPERATION_BYTES_MAX = 256
NUMBER_BYTES_MAX = 15


@dataclass(slots=True)
class Events:
    """An events frame: what is read of it, without the model. events: raw event texts, the first numbered first_seq."""

    operation_id: str
    generation: int
    relay: int
    first_seq: int
    events: list[str]


AnyFrame = Events | BeginFrame | EndFrame | ResolveFrame


class AttemptRef(NamedTuple):
    """Which relay of which attempt a frame belongs to."""

    operation_id: str
    generation: int
    relay: int


def attempt_of(record: InputRecord) -> AttemptRef:
    """The attempt a frame's headers name; from the body where a writer left them out or wrote them wrong.

    Raises Poison where neither tells.
    """
    found = dict(record.headers)
    operation = found.get(OPERATION_HEADER) or b""
    generation, relay = found.get(GENERATION_HEADER) or b"", found.get(RELAY_HEADER) or b""
    if 0 < len(operation) <= OPERATION_BYTES_MAX and _is_number(generation) and _is_number(relay):
        try:
            return AttemptRef(operation.decode(), int(generation), int(relay))
        except UnicodeDecodeError:
            pass
    frame = parse(record)
    return AttemptRef(frame.operation_id, frame.generation, frame.relay)


def _is_number(text: bytes) -> bool:
    """A generation or relay in a header: what a record's integer can be, without sign or space."""
    return len(text) <= NUMBER_BYTES_MAX and text.isdigit()


def is_of(frame: AnyFrame, ref: AttemptRef) -> bool:
    """Whether a frame's body names the attempt its headers name."""
    return frame.operation_id == ref.operation_id and frame.generation == ref.generation and frame.relay == ref.relay


def parse(record: InputRecord) -> AnyFrame:
    """The frame's body. Raises Poison (not a frame, or its key is not its conversation's)."""
    try:
        events = _events(record)
        if events is not None:
            return events
        frame = decode_any(record.value, SCHEMAS)
    except (InvalidRecord, UnknownSchema) as error:
        raise Poison(record, error.code, str(error)) from None
    assert isinstance(frame, BeginFrame | EndFrame | ResolveFrame)
    _check_key(record, frame.tenant, frame.conversation)
    return frame


def _check_key(record: InputRecord, tenant: str, conversation: str) -> None:
    if record.key != conversation_key(tenant, conversation):
        raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")


def _events(record: InputRecord) -> Events | None:
    """The hot path: an events frame checked field by field instead of by pydantic; None for any other schema."""
    value = record.value
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
    field = cast(Any, plain).get
    events, first_seq = field("events"), field("firstSeq")
    tenant, conversation, profile = field("tenant"), field("conversation"), field("profile")
    operation, generation, relay = field("operationId"), field("generation"), field("relay")
    if not (
        type(events) is list
        and set(map(type, events)) <= {str}
        and type(tenant) is type(conversation) is type(operation) is type(profile) is str
        and type(generation) is type(relay) is type(first_seq) is int
        and min(generation, relay, first_seq) >= 0
    ):
        # The slow way names the field; what it would let pass (a number in quotes, say) is refused all the same.
        decode(EventsFrame, value)
        raise InvalidRecord("StreamEvents: a field is missing or of another type")
    _check_key(record, tenant, conversation)
    return Events(operation, generation, relay, first_seq, events)
