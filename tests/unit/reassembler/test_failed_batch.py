"""What a batch that failed held is free at once, not at some later collection: batches are large."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, ClassVar, cast

import pytest

from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord, Position
from turngate.schemas.errors import Retryable


class RedisAway(Retryable):
    code = "redis_away"
    raised: ClassVar[list[weakref.ref[BaseException]]] = []

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.raised.append(weakref.ref(self))


async def test_an_error_does_not_keep_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = ReassemblerHandler(ReassemblerDeps(cast(Any, None), cast(Any, None), Metrics(), cast(Any, None)))
    await handler.start(PartitionStart(partition=0, term=1, positions={"stream-events": Position(0, "")}))

    async def away(*_: object) -> None:
        raise RedisAway("Redis does not answer")

    monkeypatch.setattr(handler, "_frame", away)
    monkeypatch.setattr(handler, "_feed_ahead", lambda lane, at: at)
    records = [InputRecord("stream-events", 0, at, 0, b"acme/c%d" % at, b"", ()) for at in range(3)]
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(RedisAway):
            await handler._step_lanes(records, cast(Any, [None] * len(records)))
        await asyncio.sleep(0)  # until then the event loop holds what woke this task: the errors
        assert [error() for error in RedisAway.raised] == [None] * 3
    finally:
        gc.enable()
