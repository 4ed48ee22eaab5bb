"""Who executes what, told by the partition that the answers go to.

Everybody who wants an execution writes a claim to the order's `replyTo` and reads that partition back: whoever's
record about the execution lies first there has it. One log, one order, so any number of processes and of consumer
groups, living, dead and renamed, come to the same answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from turngate.executor.answers import claim_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any
from turngate.schemas.tools import ToolProgress, ToolResult
from turngate.topology.topics import TOPICS

CLOCK_SKEW_MS = 600_000
"""How far an executor's clock may lie behind the ledger's: that much before its order a claim may seem to be."""

KEEP_MS = 2 * CLOCK_SKEW_MS
"""How much of a partition is remembered while nobody asks about older orders."""

STANDINGS_MAX = 500_000
"""Executions remembered per partition, whoever asks."""

POLL_MS = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log says of one execution.

    offset, executor: of the first record about it. answered: whether there is a result. heard_s: when its last record
    was read, on this process's monotonic clock. at_ms: the time of its last record.
    """

    offset: int
    executor: str | None
    answered: bool
    heard_s: float
    at_ms: int


@dataclass(slots=True)
class Followed:
    """One partition: what was read of it from since_ms on. lost_ms: standings older than this had to be dropped."""

    since_ms: int
    next_offset: int
    lost_ms: int = -1
    standings: OrderedDict[str, Standing] = field(default_factory=OrderedDict[str, Standing])

    def note(self, record: ConsumerRecord[bytes, bytes], heard_s: float) -> None:
        """Take in the next record; what is no answer to an order says nothing."""
        if record.offset < self.next_offset:
            return  # fetched before the partition was opened again
        self.next_offset = record.offset + 1
        try:
            entry = decode_any(record.value, TOPICS["tool-results"].schemas)
        except (InvalidRecord, UnknownSchema):
            return
        if isinstance(entry, ToolProgress | ToolResult):
            key, answered = claim_key(entry), isinstance(entry, ToolResult)
            first = self.standings.pop(key, None)
            if first is None:
                first = Standing(record.offset, entry.executor, answered, heard_s, record.timestamp)
            self.standings[key] = Standing(
                first.offset, first.executor, first.answered or answered, heard_s, record.timestamp
            )

    def forget(self, before_ms: int, standings_max: int) -> None:
        """Drop what was last heard of before a time, and what is too much."""
        while self.standings:
            key, standing = next(iter(self.standings.items()))
            if standing.at_ms < before_ms:
                self.since_ms = max(self.since_ms, before_ms)
            elif len(self.standings) > standings_max:
                self.lost_ms = max(self.lost_ms, standing.at_ms)
            else:
                return
            del self.standings[key]


class ClaimLog:
    """Reads the partitions that are asked about, each from the time of the oldest order asked about."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        *,
        standings_max: int = STANDINGS_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """consumer: without group or subscription, reading uncommitted; this object's alone, started before `run`."""
        self._consumer = consumer
        self._standings_max = standings_max
        self._monotonic = monotonic
        self._followed: dict[TopicPartition, Followed] = {}
        self._asking: dict[TopicPartition, list[int]] = {}
        self._asked = asyncio.Event()
        self._changed = asyncio.Condition()

    async def standing(self, key: str, at: TopicPartition, *, claimed_offset: int, since_ms: int) -> Standing | None:
        """What the partition says of an execution, up to the claim that was just written to it.

        since_ms: no claim of this execution is older. None: it cannot be told, there is too much to remember.
        """
        asking = self._asking.setdefault(at, [])
        asking.append(since_ms)
        self._asked.set()
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._reaches(at, since_ms, claimed_offset))
                followed = self._followed[at]
                return followed.standings.get(key) if followed.lost_ms < since_ms else None
        finally:
            asking.remove(since_ms)

    def quiet_s(self, standing: Standing) -> float:
        """How long nothing has been heard of an execution."""
        return self._monotonic() - standing.heard_s

    def forget(self) -> None:
        """Follow nothing any more but what is being asked about: the worker has other partitions from now on."""
        for at in [at for at, asking in self._asking.items() if not asking]:
            del self._asking[at]
            self._followed.pop(at, None)

    async def run(self) -> None:
        """Read until cancelled. Raises what Kafka raises."""
        while True:
            if not self._asking:
                self._asked.clear()
                await self._asked.wait()
            await self._open()
            if not self._followed:
                await asyncio.sleep(POLL_MS / 1000)
                continue
            batches = await self._consumer.getmany(timeout_ms=POLL_MS)
            for at, records in batches.items():
                self._take(at, records)
            async with self._changed:
                self._changed.notify_all()

    def _reaches(self, at: TopicPartition, since_ms: int, offset: int) -> bool:
        followed = self._followed.get(at)
        return followed is not None and followed.since_ms <= since_ms and followed.next_offset > offset

    async def _open(self) -> None:
        """Follow what is asked about and not followed, or not from early enough on."""
        due = {at: min(asking) for at, asking in self._asking.items() if asking}
        due = {at: ms for at, ms in due.items() if at not in self._followed or self._followed[at].since_ms > ms}
        if due:
            for at, found in (await self._consumer.offsets_for_times(dict(due))).items():
                # None: nothing is as young. The claim that is asked about is: it is on its way to be seen.
                if found is not None:
                    self._followed[at] = Followed(due[at], found.offset)
        if due or self._consumer.assignment() != set(self._followed):
            self._consumer.assign(list(self._followed))
            for at, followed in self._followed.items():
                self._consumer.seek(at, followed.next_offset)

    def _take(self, at: TopicPartition, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        followed = self._followed.get(at)
        if followed is None:
            return
        newest_ms = -1
        for record in records:
            followed.note(record, self._monotonic())
            newest_ms = max(newest_ms, record.timestamp)
        followed.forget(min([newest_ms - KEEP_MS, *self._asking.get(at, ())]), self._standings_max)
