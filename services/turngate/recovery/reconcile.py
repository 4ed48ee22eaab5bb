"""The fence-all reconcile: what must happen before a bucket is opened on a server it was not open on (DESIGN §6).

In this order: (1) InitProducerId on every transactional id of the partition, so that what was decided before the loss
has either landed or never will; (2) the effect topics are read under read_committed from the buckets' checkpoint to the
end and adopted by scripts that only raise; (3) each bucket is opened by a script that compares the replid it names with
the server's. Causes (requests, results, control) are never adopted: those whose effect was not committed come again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from turngate.recovery.adopt import adoption
from turngate.recovery.store import RecoveryStore
from turngate.runtime.records import InputRecord
from turngate.runtime.redis.scripts import Call
from turngate.schemas.errors import Retryable

FENCED_ROLES = ("validator", "dispatcher", "reassembler", "ledger")
EFFECT_TOPICS = (
    "turns", "sequences", "manifests", "dispatches", "session-events", "tool-calls", "verdicts",
)  # fmt: skip
"""In the order of adoption: history first, then operations, then what became of them."""


class LogReader(Protocol):
    """Reads one partition of the effect topics, whole and committed."""

    async def end_offsets(self, partition: int, topics: Sequence[str]) -> dict[str, int]:
        """The last stable offsets (read_committed ends)."""
        ...

    def read(self, topic: str, partition: int, start: int, end: int) -> AsyncIterator[InputRecord]:
        """Every committed record with start <= offset < end, in order."""
        ...


class Fencer(Protocol):
    """Takes over transactional ids."""

    async def fence(self, transactional_ids: Sequence[str]) -> None:
        """InitProducerId on each: the predecessor's open transaction is aborted, its commits fail from now on."""
        ...


class ServerMoved(Retryable):
    """Redis changed under the reconcile; it starts again."""

    code = "redis_moved"


class Reconciler:
    """Reconciles and opens the buckets of one partition."""

    def __init__(
        self,
        *,
        partition: int,
        buckets: Sequence[int],
        store: RecoveryStore,
        reader: LogReader,
        fencer: Fencer,
        transactional_id: Callable[[str, int], str],
        new_token: Callable[[], str],
        lease_ms: int,
    ) -> None:
        self._partition = partition
        self._buckets = buckets
        self._store = store
        self._reader = reader
        self._fencer = fencer
        self._transactional_id = transactional_id
        self._new_token = new_token
        self._lease_ms = lease_ms

    async def run(self, before_opening: Callable[[], Awaitable[object]]) -> bool:
        """Opens every closed bucket; True where at least one had been closed.

        before_opening: brings back what is kept outside of buckets; whoever finds a bucket open may rely on it.
        Raises Retryable errors where Redis or Kafka is away or Redis changed meanwhile.
        """
        statuses = await self._store.run_many(
            [Call("recovery/bucket_v1", bucket, EFFECT_TOPICS) for bucket in self._buckets]
        )
        closed = [
            (bucket, status) for bucket, status in zip(self._buckets, statuses, strict=True) if status[0] == b"closed"
        ]
        if not closed:
            return False
        replid = closed[0][1][1]
        await self._fencer.fence([self._transactional_id(role, self._partition) for role in FENCED_ROLES])
        ends = await self._reader.end_offsets(self._partition, EFFECT_TOPICS)
        starts = {
            topic: min(int(status[3 + index] or 0) for _, status in closed) for index, topic in enumerate(EFFECT_TOPICS)
        }
        wanted = {bucket for bucket, _ in closed}
        for topic in EFFECT_TOPICS:
            await self._adopt(topic, starts[topic], ends[topic], wanted)
        await before_opening()
        checkpoint = tuple(part for topic in EFFECT_TOPICS for part in (topic, ends[topic]))
        opened = await self._store.run_many(
            [
                Call("recovery/open_v1", bucket, (replid, self._new_token(), self._lease_ms, *checkpoint))
                for bucket, _ in closed
            ]
        )
        if any(answer[0] == b"moved" for answer in opened):
            raise ServerMoved("Redis was restarted or promoted during the reconcile")
        return True

    async def _adopt(self, topic: str, start: int, end: int, wanted: set[int]) -> None:
        calls: list[Call] = []
        async for record in self._reader.read(topic, self._partition, start, end):
            calls += [call for call in adoption(record, self._lease_ms) if call.bucket in wanted]
            if len(calls) >= 500:
                await self._store.run_many(calls)
                calls = []
        await self._store.run_many(calls)
