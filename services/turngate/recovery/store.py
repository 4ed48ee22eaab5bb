"""Recovery's side of Redis: scanning due entries, evidence, and the scripts of the reconcile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redis.exceptions import RedisError

from turngate.runtime.redis.keys import LEASES, TIMERS, bucket_keys
from turngate.runtime.redis.scripts import Answer, Call, RedisUnavailable, Scripts
from turngate.topology.keys import bucket_of

DUE_PER_BUCKET_MAX = 100


@dataclass(frozen=True, slots=True)
class Due:
    """What is due in one bucket: operations whose lease has expired, and timers."""

    bucket: int
    leases: tuple[str, ...]
    timers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperationView:
    """What recovery sees of an operation; times in ms, 0 where absent."""

    operation_id: str
    state: str
    key: bytes
    generation: int
    relay: int
    owner: str
    boot: int
    spec: bytes
    command: bytes
    manifest_digest: str
    evidence: str
    unknown_since_ms: int
    lease_until_ms: int
    now_ms: int


class RecoveryStore:
    """Runs recovery's scripts for one partition, under one term."""

    def __init__(self, scripts: Scripts, term: int) -> None:
        self._scripts = scripts
        self._term = term

    async def replid(self) -> str:
        """The server's replication id. Raises RedisUnavailable."""
        try:
            return str((await self._scripts.redis.info("replication"))["master_replid"])
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error

    async def due(self, buckets: Sequence[int]) -> list[Due]:
        """All due leases and timers of the buckets, in one round trip, by Redis time."""
        try:
            seconds, micros = await self._scripts.redis.time()
            now = int(seconds) * 1000 + int(micros) // 1000
            pipe = self._scripts.redis.pipeline(transaction=False)
            for bucket in buckets:
                keys = bucket_keys(self._scripts.prefix, bucket)
                pipe.zrangebyscore(keys[LEASES], "-inf", now, start=0, num=DUE_PER_BUCKET_MAX)
                pipe.zrangebyscore(keys[TIMERS], "-inf", now, start=0, num=DUE_PER_BUCKET_MAX)
            rows = await pipe.execute()
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error
        found = []
        for index, bucket in enumerate(buckets):
            leases, timers = rows[2 * index], rows[2 * index + 1]
            if leases or timers:
                found.append(Due(bucket, tuple(o.decode() for o in leases), tuple(t.decode() for t in timers)))
        return found

    async def operations(self, bucket: int, ids: Iterable[str]) -> list[OperationView]:
        """Views of the operations, in order; one that is not known has an empty state."""
        wanted = list(ids)
        if not wanted:
            return []
        reply = await self._scripts.run("recovery/operation_v1", bucket, self._term, *wanted)
        views = []
        for index, operation in enumerate(wanted):
            row = reply[1 + index * 13 : 14 + index * 13]
            views.append(
                OperationView(
                    operation_id=operation,
                    state=row[0].decode(),
                    key=row[1],
                    generation=int(row[2] or 0),
                    relay=int(row[3] or 0),
                    owner=row[4].decode(),
                    boot=int(row[5] or 0),
                    spec=row[6],
                    command=row[7],
                    manifest_digest=row[8].decode(),
                    evidence=row[9].decode(),
                    unknown_since_ms=int(row[10] or 0),
                    lease_until_ms=int(float(row[11] or 0)),
                    now_ms=int(row[12]),
                )
            )
        return views

    async def evidence(self, key: bytes, operation: str, generation: int, evidence: str) -> Answer:
        """Stores evidence; see `lua/evidence_v1.lua`."""
        return await self._run("recovery/evidence_v1", key, operation, generation, evidence)

    async def waiting(self, key: bytes) -> tuple[bytes, int] | None:
        """The first held request of a conversation and the head it is re-based on."""
        reply = await self._run("recovery/waiting_v1", key, key)
        return (reply[1], int(reply[2])) if reply[0] == b"ok" else None

    async def postpone(self, bucket: int, timers: Sequence[str], delay_ms: int) -> None:
        """Moves timers that were turned into records, so that they are looked at again if nobody removes them."""
        calls = [Call("recovery/postpone_v1", bucket, (timer, delay_ms)) for timer in timers]
        await self._scripts.run_many(calls, self._term)

    async def checkpoint(self, buckets: Iterable[int], offsets: dict[str, int]) -> None:
        """Notes in each bucket up to where effects had been read before this write."""
        args = tuple(part for topic, offset in sorted(offsets.items()) for part in (topic, offset))
        await self.run_many([Call("recovery/checkpoint_v1", bucket, args) for bucket in buckets])

    async def run_many(self, calls: Sequence[Call]) -> list[Answer]:
        """Any scripts of recovery, in order, in bounded round trips."""
        answers: list[Answer] = []
        for start in range(0, len(calls), 500):
            answers += await self._scripts.run_many(calls[start : start + 500], self._term)
        return answers

    async def _run(self, script: str, key: bytes, *args: str | bytes | int) -> Answer:
        return await self._scripts.run(script, bucket_of(key), self._term, *args)
