"""What quarantine keeps of a frame beyond its limit: events that end a turn, tell its cost or report an error."""

from __future__ import annotations

from itertools import groupby

import orjson

from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.operations import CLOSING, NormaliserSpec, Operation
from turngate.schemas.codec import encode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any
from turngate.schemas.stream import EndFrame, EventsFrame, ResolveFrame

CLOSING_BYTES_MAX = 256 * 1024
"""Of one relay and reason: some servers tell the usage in every chunk. What exceeds it is counted as all else is."""

FRAMES = ("StreamEvents.v1", "StreamEnd.v1", "StreamResolve.v1")


def closing_frames(value: bytes) -> list[bytes]:
    """The frame itself where it is an end; of events, one frame for each run of consecutive ones that are closing.

    An event is judged by itself, by the newest normaliser of its profile.
    """
    try:
        frame = decode_any(value, FRAMES)
    except (InvalidRecord, UnknownSchema):
        return []
    if isinstance(frame, EndFrame | ResolveFrame):
        return [value]
    assert isinstance(frame, EventsFrame)
    try:
        spec = find_normaliser(frame.profile)
    except UnknownNormaliser:
        return []
    found: list[bytes] = []
    for closing, run in groupby(enumerate(frame.events), lambda item: _is_closing(spec, item[1])):
        if closing:
            kept = list(run)
            part = {"first_seq": frame.first_seq + kept[0][0], "events": tuple(text for _, text in kept)}
            found.append(encode(frame.model_copy(update=part)))
    return found


def _is_closing(spec: NormaliserSpec, event: str) -> bool:
    try:
        value = orjson.loads(event)
    except orjson.JSONDecodeError:
        return False
    operations: list[Operation] = []
    spec.build().event(value, event, operations)
    return any(isinstance(operation, CLOSING) for operation in operations)
