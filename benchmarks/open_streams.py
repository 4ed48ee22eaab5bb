"""Many open streams in one partition of the reassembler: what each costs in memory, and whether events cost more.

python -m benchmarks open-streams [STREAMS]

The real handler and scripts on a Redis (TURNGATE_KAFKA and TURNGATE_REDIS, or the embedded one), fed without a broker:
the same frames go through 100 open streams at a time and through all of them open at once, in turns. Memory is what
tracemalloc counts, all objects of Python.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import time
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from benchmarks.operations import Attempt, open_attempts
from benchmarks.streams import chat
from turngate.devstack.stack import open_stack
from turngate.domain.dispatch.retry import RetryPolicy
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord, Output, Position
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts

STREAMS = 20_000
FEW = 100
FRAMES = 4
"""Event frames of each stream while memory is measured."""
ROUNDS = 5
SETS = 20
"""Of FEW streams each, in a round."""
BATCH = 100
TOPIC = "stream-events"


@dataclass
class Partition:
    """A handler that has taken over, and the offset of its next record."""

    handler: ReassemblerHandler
    offset: int = 0

    async def step(self, outputs: Sequence[Output]) -> float:
        """Steps the frames in batches; processor seconds spent in steps alone."""
        spent = 0.0
        for at in range(0, len(outputs), BATCH):
            records = [self._record(out) for out in outputs[at : at + BATCH]]
            begin = time.process_time()
            await self.handler.step(records)
            spent += time.process_time() - begin
        return spent

    def _record(self, out: Output) -> InputRecord:
        """Bytes of its own, as a record that was read has."""
        headers = tuple((name, bytes(bytearray(value))) for name, value in out.headers)
        self.offset += 1
        return InputRecord(
            TOPIC, 0, self.offset - 1, 1, bytes(bytearray(out.key)), bytes(bytearray(out.value)), headers
        )


@asynccontextmanager
async def partition(redis: Redis, prefix: str) -> AsyncGenerator[Partition]:
    deps = ReassemblerDeps(
        Scripts(redis, prefix, "reassembler"), Toolsets(redis, prefix), Metrics(), RetryPolicy(base_ms=1, ceiling_ms=1)
    )
    handler = ReassemblerHandler(deps)
    await handler.start(PartitionStart(0, 1, {TOPIC: Position(0)}))
    yield Partition(handler)
    await handler.stop()


async def costs(redis: Redis, prefix: str, streams: int) -> list[tuple[float, float]]:
    """Microseconds of processor time an event, with few streams open and with all of them, in turns.

    A step holds one frame of each of FEW streams in both cases; begins and the frames that bind handles are not timed.
    """
    events = chat(16 * (ROUNDS + 2))[: 16 * (ROUNDS + 1)]
    attempts = await open_attempts(redis, prefix, streams + ROUNDS * FEW * SETS)
    found: list[tuple[float, float]] = []
    async with partition(redis, prefix) as full:
        for at in range(0, streams, BATCH):
            await full.step(frames_at(attempts[at : min(at + BATCH, streams)], events, 0, 1))
        for number in range(1, ROUNDS + 1):
            few = 0.0
            for at in range(streams + (number - 1) * FEW * SETS, streams + number * FEW * SETS, FEW):
                async with partition(redis, prefix) as several:
                    await several.step(frames_at(attempts[at : at + FEW], events, *range(number + 1)))
                    few += await several.step(frames_at(attempts[at : at + FEW], events, number + 1))
            many = await full.step(frames_at(attempts[:streams], events, number + 1))
            found.append((few / (FEW * SETS * 16) * 1e6, many / (streams * 16) * 1e6))
    return found


def frames_at(attempts: Sequence[Attempt], events: list[str], *numbers: int) -> list[Output]:
    """The frames of these numbers of every stream, 0 being `begin`: one number after the other."""
    streams = [attempt.frames(events, ended=False) for attempt in attempts]
    return [stream[number] for number in numbers for stream in streams]


def text_bytes(events: Sequence[str]) -> int:
    """Of the answer's text in these chunks."""
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events]
    return sum(len(delta.get("content") or "") for delta in deltas)


async def bytes_per_stream(redis: Redis, prefix: str, attempts: Sequence[Attempt]) -> tuple[float, float]:
    """(what each further open stream adds to memory, of that what is buffered: raw frames and text), in bytes."""
    events = chat(400)[: 16 * FRAMES]
    numbers = range(FRAMES + 1)
    async with partition(redis, prefix) as several:
        warm, cold = attempts[:BATCH], attempts[BATCH:]
        await several.step(frames_at(warm, events, *numbers))
        before, buffered = _memory_bytes(), 0
        for at in range(0, len(cold), BATCH):
            frames = frames_at(cold[at : at + BATCH], events, *numbers)
            await several.step(frames)
            buffered += sum(len(out.value) for out in frames) + BATCH * text_bytes(events)
            del frames
        return (_memory_bytes() - before) / len(cold), buffered / len(cold)


def _memory_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def memory(redis_url: str, streams: int) -> tuple[float, float]:
    redis = Redis.from_url(redis_url)
    try:
        prefix = f"bench{os.getpid()}"
        return await bytes_per_stream(redis, prefix, await open_attempts(redis, prefix, streams))
    finally:
        await redis.flushdb()
        await redis.aclose()


def _memory(redis_url: str, streams: int) -> tuple[float, float]:
    tracemalloc.start()
    return asyncio.run(memory(redis_url, streams))


async def on_redis(redis_url: str, streams: int) -> list[tuple[float, float]]:
    redis = Redis.from_url(redis_url)
    try:
        return await costs(redis, f"bench{os.getpid()}", streams)
    finally:
        await redis.flushdb()
        await redis.aclose()


def main(streams: int = STREAMS) -> int:
    stack = open_stack("benchmarks")
    stack.start_sync()
    try:
        # In a process of its own: tracemalloc slows down what is timed.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            size, buffered = pool.apply(_memory, (stack.redis_url, streams))
        print(f"memory of an open stream: {size:,.0f} bytes, {buffered:,.0f} of them buffered frames and text, "
              f"{size - buffered:,.0f} above", flush=True)  # fmt: skip
        found = asyncio.run(on_redis(stack.redis_url, streams))
    finally:
        stack.stop_sync()
    few, many = (statistics.median(costs) for costs in zip(*found, strict=True))
    ratio = statistics.median(many / few for few, many in found)
    print(f"an event: {few:.2f} us with {FEW} open, {many:.2f} us with {streams:,} open, ratio {ratio:.2f}")
    return 0
