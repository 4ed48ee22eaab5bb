"""A partition with many open streams changes hands: how fast the successor reads them again, with outputs muted.

python -m benchmarks takeover [STREAMS]

Runs on TURNGATE_KAFKA and TURNGATE_REDIS, or fetches and starts Apache Kafka and redis-server itself. A worker reads
the frames of streams that stay open and commits; a second one takes the partition over and is timed from the moment it
holds it (producer fenced, offsets read) until it has stepped the last frame its predecessor had emitted.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import BlockingConnectionPool, Redis

from benchmarks.operations import FRAME, TENANT, interleaved, open_attempts
from benchmarks.streams import chat
from benchmarks.worker import ROOT, produce
from turngate.domain.dispatch.retry import RetryPolicy
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.clock import SystemClock
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord, StepResult
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.runtime.settings import Settings
from turngate.runtime.worker import Worker
from turngate.topology.groups import ROLES
from turngate.topology.provision import apply_topology

STREAMS = 2_000
FRAMES = 20
ROUNDS = 3
WAIT_SECONDS = 300.0


@dataclass
class Turn:
    """One worker's time with the partition."""

    until: int
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    ended: float = 0.0
    outputs: int = 0
    committed_from: int = -1


class TimedHandler(ReassemblerHandler):
    """The real one, with a look at the clock when it starts and when the last frame has been stepped."""

    def __init__(self, deps: ReassemblerDeps, turn: Turn) -> None:
        super().__init__(deps)
        self._turn = turn

    async def start(self, start: PartitionStart) -> None:
        self._turn.began = time.perf_counter()
        self._turn.committed_from = start.positions["stream-events"].offset
        await super().start(start)

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        result = await super().step(records)
        self._turn.outputs += len(result.outputs)
        if records and records[-1].offset + 1 >= self._turn.until:
            self._turn.ended = self._turn.ended or time.perf_counter()
            result.after_commit.append(self._turn.caught_up.set)
        return result


async def hold(prefix: str, turn: Turn) -> None:
    """Works on the partition until the last frame is done, then hands it back in good order."""
    settings = Settings(
        kafka=os.environ["TURNGATE_KAFKA"], redis=os.environ["TURNGATE_REDIS"], topic_prefix=prefix, partitions=1,
        environment="dev", tenants=(TENANT,), instance_id="reassembler-0",
    )  # fmt: skip
    redis = Redis.from_pool(BlockingConnectionPool.from_url(settings.redis, max_connections=100))
    metrics = Metrics()
    deps = ReassemblerDeps(
        Scripts(redis, prefix, "reassembler"), Toolsets(redis, prefix), metrics, RetryPolicy(base_ms=1, ceiling_ms=1)
    )
    worker = Worker(
        settings=settings, role=ROLES["reassembler"], handler_factory=lambda _: TimedHandler(deps, turn),
        clock=SystemClock(), metrics=metrics,
    )  # fmt: skip
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await turn.caught_up.wait()
    finally:
        worker.request_stop()
        await running
        await redis.aclose()


async def replay(streams: int) -> list[float]:
    """Seconds from taking the partition over to the last frame stepped, once a round."""
    events = chat(400)[: FRAME * FRAMES]
    prefix = f"bench{secrets.token_hex(4)}"
    await apply_topology(os.environ["TURNGATE_KAFKA"], prefix=prefix, partitions=1, environment="dev")
    redis = Redis.from_url(os.environ["TURNGATE_REDIS"])
    attempts = await open_attempts(redis, prefix, streams)
    await redis.aclose()
    frames = [attempt.frames(events, ended=False) for attempt in attempts]
    total = await produce(os.environ["TURNGATE_KAFKA"], prefix, interleaved(frames, streams))
    first = Turn(total)
    await hold(prefix, first)
    assert first.outputs > 0, "the first one shows what it reads"
    found: list[float] = []
    for _ in range(ROUNDS):
        turn = Turn(total)
        await hold(prefix, turn)
        assert turn.outputs == 0, "what was shown before is not shown again"
        assert turn.committed_from == 0, "every stream is still open"
        found.append(turn.ended - turn.began)
    return found


def main(streams: int = STREAMS) -> int:
    if "TURNGATE_KAFKA" not in os.environ:
        again = [sys.executable, "-m", "benchmarks", "takeover", str(streams)]
        return subprocess.call([sys.executable, str(ROOT / "scripts" / "real_kafka.py"), "run", "--", *again], cwd=ROOT)
    seconds = statistics.median(asyncio.run(replay(streams)))
    events = streams * FRAME * FRAMES
    broker = os.environ.get("TURNGATE_BROKER_NAME", "broker")
    print(f"{broker}: {streams:,} open streams, {events:,} events in frames of {FRAME} read again in {seconds:.2f} s: "
          f"{events / seconds:,.0f} events/s, nothing shown twice")  # fmt: skip
    return 0
