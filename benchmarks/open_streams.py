"""Many open streams in one partition of the reassembler: what each costs in memory, and whether events cost more.

python -m benchmarks open-streams [STREAMS]

The real handler and scripts on a Redis (TURNGATE_KAFKA and TURNGATE_REDIS, or the embedded one), fed without a broker:
the same frames go through 100 open streams at a time and through all of them open at once. Memory is measured in a
process of its own, by tracemalloc (bytes of Python objects) and as growth of the resident set.
"""

from __future__ import annotations

import asyncio
import gc
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
"""Event frames of each stream: the first binds its handle in Redis."""
ROUNDS = 3
BATCH = 500
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


def rounds_of(attempts: Sequence[Attempt], events: list[str]) -> tuple[list[Output], list[Output]]:
    """(begins, event frames: the first of every stream, then the second of every stream, and so on)."""
    streams = [attempt.frames(events, ended=False) for attempt in attempts]
    return [stream[0] for stream in streams], [stream[n] for n in range(1, FRAMES + 1) for stream in streams]


async def per_event_us(redis: Redis, prefix: str, attempts: Sequence[Attempt], open_at_once: int) -> float:
    """Cost of an event while so many streams are open, all frames being the same."""
    events = chat(400)[: 16 * FRAMES]
    spent = 0.0
    for at in range(0, len(attempts), open_at_once):
        async with partition(redis, prefix) as several:
            begins, frames = rounds_of(attempts[at : at + open_at_once], events)
            await several.step(begins)
            spent += await several.step(frames)
    return spent / (len(attempts) * len(events)) * 1e6


async def bytes_per_stream(redis: Redis, prefix: str, attempts: Sequence[Attempt]) -> tuple[float, float]:
    """(what each further open stream adds to memory, of that what is buffered of its frames), in bytes.

    Under tracemalloc the first is Python's own count, else the growth of the resident set.
    """
    events = chat(400)[: 16 * FRAMES]
    async with partition(redis, prefix) as several:
        warm, cold = attempts[:BATCH], attempts[BATCH:]
        for out in rounds_of(warm, events):
            await several.step(out)
        before, buffered = _memory_bytes(), 0
        for at in range(0, len(cold), BATCH):
            begins, frames = rounds_of(cold[at : at + BATCH], events)
            await several.step(begins)
            await several.step(frames)
            buffered += sum(len(out.value) for out in (*begins, *frames))
            del begins, frames
        return (_memory_bytes() - before) / len(cold), buffered / len(cold)


def _memory_bytes() -> int:
    gc.collect()
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def memory(redis_url: str, streams: int) -> tuple[float, float]:
    redis = Redis.from_url(redis_url)
    try:
        prefix = f"bench{os.getpid()}"
        return await bytes_per_stream(redis, prefix, await open_attempts(redis, prefix, streams))
    finally:
        await redis.flushdb()
        await redis.aclose()


def _memory(redis_url: str, streams: int, traced: bool) -> tuple[float, float]:
    if traced:
        tracemalloc.start()
    return asyncio.run(memory(redis_url, streams))


def memory_table(redis_url: str, streams: int) -> None:
    print(f"{'memory of an open stream':<34}{'bytes':>9}{'buffered':>10}{'above':>9}")
    for traced, name in ((True, "Python objects (tracemalloc)"), (False, "resident set")):
        # A process each: what one has freed the other must not find.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            size, buffered = pool.apply(_memory, (redis_url, streams, traced))
        print(f"{name:<34}{size:>9,.0f}{buffered:>10,.0f}{size - buffered:>9,.0f}", flush=True)


async def costs(redis_url: str, streams: int) -> list[tuple[float, float]]:
    """Per round the cost of an event with few streams open and with all of them, one after the other."""
    redis = Redis.from_url(redis_url)
    found: list[tuple[float, float]] = []
    try:
        for number in range(ROUNDS):
            costs: dict[int, float] = {}
            for open_at_once in (FEW, streams) if number % 2 == 0 else (streams, FEW):
                prefix = f"bench{number}-{open_at_once}"
                attempts = await open_attempts(redis, prefix, streams)
                costs[open_at_once] = await per_event_us(redis, prefix, attempts, open_at_once)
                await redis.flushdb()
            found.append((costs[FEW], costs[streams]))
    finally:
        await redis.aclose()
    return found


def main(streams: int = STREAMS) -> int:
    stack = open_stack("benchmarks")
    stack.start_sync()
    try:
        memory_table(stack.redis_url, streams)
        found = asyncio.run(costs(stack.redis_url, streams))
    finally:
        stack.stop_sync()
    few, many = (statistics.median(costs) for costs in zip(*found, strict=True))
    ratio = statistics.median(many / few for few, many in found)
    print(f"an event: {few:.2f} us with {FEW} open, {many:.2f} us with {streams:,} open, ratio {ratio:.2f}")
    return 0
