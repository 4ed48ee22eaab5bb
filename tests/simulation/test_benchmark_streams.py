"""The benchmarks' attempts and frames are what the fleet's scripts and the reassembler take: each becomes a turn."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from redis.asyncio import Redis

from turngate.domain.dispatch.retry import RetryPolicy
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord, Output, Position
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.codec import decode
from turngate.schemas.session import SessionEvent

ROOT = Path(__file__).resolve().parents[2]
STREAMS = 6
TOPIC = "stream-events"


async def stepped(redis: Redis, prefix: str, frames: list[Output], random: Random) -> list[Output]:
    """What a partition gives for frames that come in batches of any size."""
    deps = ReassemblerDeps(
        Scripts(redis, prefix, "reassembler"), Toolsets(redis, prefix), Metrics(), RetryPolicy(base_ms=1, ceiling_ms=1)
    )
    handler = ReassemblerHandler(deps)
    await handler.start(PartitionStart(0, 1, {TOPIC: Position(0)}))
    records = [InputRecord(TOPIC, 0, n, 1, out.key, out.value, out.headers) for n, out in enumerate(frames)]
    outputs: list[Output] = []
    while records:
        size = random.randint(1, 60)
        result = await handler.step(records[:size])
        outputs += result.outputs
        records = records[size:]
    assert result.positions == {TOPIC: Position(len(frames), str(len(frames)))}
    return outputs


async def test_every_stream_becomes_a_turn_whose_text_was_shown(stack, redis_prefix, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from benchmarks.operations import interleaved, open_attempts
    from benchmarks.streams import chat

    redis = Redis.from_url(stack.redis_url)
    try:
        attempts = await open_attempts(redis, redis_prefix, STREAMS)
        events = chat(200)
        frames = list(interleaved([attempt.frames(events) for attempt in attempts], 4))
        outputs = await stepped(redis, redis_prefix, frames, Random(1))
    finally:
        await redis.aclose()
    assert sum(out.topic == "turns" for out in outputs) == STREAMS
    for attempt in attempts:
        given = [out for out in outputs if out.topic == "session-events" and out.key == attempt.key]
        own = [decode(SessionEvent, out.value) for out in given]
        whole = next(event.text for event in own if event.type == "text")
        shown = [event for event in own if event.type == "partial_text" and event.step == "delta"]
        assert "".join(event.text for event in shown) == whole
        ends = [event.text_offset + len(event.text) for event in shown]
        assert [event.text_offset for event in shown] == [0, *ends[:-1]]
        assert len(shown) < len(events) // 16, "frames of a stream that come together are shown together"
        assert [event.type for event in own][-2:] == ["request_end", "turn_committed"]
