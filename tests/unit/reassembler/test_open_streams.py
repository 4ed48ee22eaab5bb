"""The low watermark of a partition: the oldest frame that an open stream needs."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from turngate.reassembler.streams import OpenStream, OpenStreams
from turngate.runtime.records import InputRecord
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX


def stream(operation: str, first_offset: int) -> OpenStream:
    nothing = cast(Any, None)
    return OpenStream(
        key=b"t/c", operation_id=operation, manifest_digest="", tools=None, generation=1,
        relay=1, first_offset=first_offset, assembler=nothing, events=nothing,
    )  # fmt: skip


def read(streams: OpenStreams, offset: int) -> None:
    streams.expect([offset])
    streams.done(offset)


def test_the_watermark_is_the_first_frame_of_the_oldest_open_stream() -> None:
    random = Random(7)
    streams = OpenStreams(0)
    model: dict[str, int] = {}
    for offset in range(2_000):
        read(streams, offset)
        operation = f"op-{random.randrange(40)}"
        if operation in model and random.random() < 0.3:
            streams.put(stream(operation, model[operation]))  # a higher relay begins where the first one did
        elif operation in model:
            streams.drop(operation, 1)
            del model[operation]
        else:
            streams.put(stream(operation, offset))
            model[operation] = offset
        assert streams.watermark() == (min([offset + 1, *model.values()]), offset + 1)
        assert len(streams) == len(model)


def test_a_stream_that_is_opened_again_at_its_first_frame_counts_again() -> None:
    streams = OpenStreams(0)
    read(streams, 4)
    read(streams, 9)
    for _ in range(2):
        streams.put(stream("op", 4))
        assert streams.watermark() == (4, 10)
        streams.drop("op", 1)
    assert streams.watermark() == (10, 10)


def test_frames_are_kept_up_to_the_quarantine_limit() -> None:
    one = stream("op", 0)
    half = b"x" * (QUARANTINE_BYTES_MAX // 2)
    for offset in range(4):
        one.keep(InputRecord("stream-events", 0, offset, 1, b"t/c", half))
    assert one.kept == [(0, half), (1, half)]
