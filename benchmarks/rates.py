"""How fast a process moves through a topic, told by what its group has committed: the same measure for every side."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from turngate.devstack.supervisor import ProcessSpec, Supervisor

LOOK_SECONDS = 0.02
START_SECONDS = 60.0
STALLED_SECONDS = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are measured. env: its settings. watermark: its offset metadata says how far it has come.
    deltas: it reads the topic with one event a record."""

    name: str
    argv: Sequence[str]
    env: dict[str, str]
    group: str
    watermark: bool = False
    deltas: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """records, seconds and CPU seconds of the process between its first commit and its last, or the time limit."""

    records: int
    seconds: float
    cpu_seconds: float


async def measure(
    admin: AIOKafkaAdminClient, side: Side, place: TopicPartition, total: int, limit_seconds: float, log: Path
) -> Rate:
    """Runs a side on a topic of `total` records until it has committed all, or `limit_seconds` after its first commit.

    Raises AssertionError where it commits nothing or comes to a stop.
    """
    name = f"{side.name.split()[0]}-{secrets.token_hex(3)}"
    async with Supervisor() as supervisor:
        supervisor.start(ProcessSpec(name, tuple(side.argv), log, side.env))
        pid = supervisor.pid(name)
        begun = last = await _first(admin, side, place)
        started_at, cpu_at_start = time.perf_counter(), _cpu_seconds(pid)
        moved_at = now = started_at
        while last < total and now - started_at < limit_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            reached, now = await _reached(admin, side, place), time.perf_counter()
            if reached > last:
                last, moved_at = reached, now
            assert now - moved_at < STALLED_SECONDS, f"{side.name} stopped at {last} of {total}; see {log}"
        cpu = _cpu_seconds(pid) - cpu_at_start
        await supervisor.kill(name, signal.SIGKILL)
    return Rate(last - begun, moved_at - started_at, cpu)


async def _first(admin: AIOKafkaAdminClient, side: Side, place: TopicPartition) -> int:
    """The first position above 0. What was done before it is the start of the process and not counted."""
    end = time.perf_counter() + START_SECONDS
    while time.perf_counter() < end:
        reached = await _reached(admin, side, place)
        if reached > 0:
            return reached
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"{side.name} has committed nothing in {START_SECONDS:.0f} s")


async def _reached(admin: AIOKafkaAdminClient, side: Side, place: TopicPartition) -> int:
    try:
        found = (await admin.list_consumer_group_offsets(side.group, partitions=[place])).get(place)
    except KafkaError:
        return 0
    if found is None:
        return 0
    return int(found.metadata or 0) if side.watermark else int(found.offset)


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process; 0 where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
