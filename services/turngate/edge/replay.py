"""The edge's side of Redis: a bounded replay buffer per conversation, and where a conversation stands."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

from redis.exceptions import RedisError

from turngate.runtime.redis.keys import replay_keys
from turngate.runtime.redis.scripts import Answer, Call, RedisUnavailable, Scripts
from turngate.topology.keys import bucket_of

TAIL_EVENTS_MAX = 500
ID = re.compile(r"(0|[1-9][0-9]{0,15})-(0|[1-9][0-9]{0,15})")


class Place(NamedTuple):
    """The id of a streamed event, `<epoch>-<n>`: n grows by one, a new epoch is a new buffer, always a higher one."""

    epoch: int
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """None for what is no id of ours."""
        found = ID.fullmatch(text)
        return cls(int(found[1]), int(found[2])) if found else None


NOWHERE = Place(0, 0)
"""Before the first event of a buffer that does not exist yet."""

Entry = tuple[Place, bytes]
"""An event's id and its line of JSON."""


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """Of one conversation's buffer: events, bytes of events, and how long it outlives its last event (ms)."""

    events_max: int
    bytes_max: int
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class Append:
    """A batch for one conversation. version: the buffer's when the batch was decided, '' for none."""

    key: bytes
    version: str
    next_offset: int
    state: bytes
    events: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    """done: the batch is in the buffer. Otherwise it was decided from another state than this one."""

    done: bool
    version: str
    state: bytes


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a decision."""

    call_key: str
    tool: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a conversation stands. operation_id: '' where none is open. open_calls: revision of their turn."""

    revision: int
    cancel_generation: int
    operation_id: str
    state: str
    generation: int
    open_calls: int | None
    paused: str
    approvals: tuple[Approval, ...]


class ReplayStore:
    """All conversations' buffers. Every method raises RedisUnavailable where Redis does not answer."""

    def __init__(self, scripts: Scripts, limits: ReplayLimits) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._limits = limits

    def stream_of(self, key: bytes) -> str:
        """The name of the stream that holds a conversation's events."""
        return self._keys(key)[1]

    def _keys(self, key: bytes) -> tuple[str, str]:
        return replay_keys(self._scripts.prefix, bucket_of(key), key.decode())

    async def append(self, batches: Sequence[Append], term: int) -> list[Appended]:
        """One script per conversation, all in one round trip; each is appended once, whoever asks again."""
        limits = self._limits
        answers = await self._scripts.run_many(
            [
                Call(
                    "edge/append_v1", bucket_of(batch.key),
                    (batch.version, batch.next_offset, batch.state, limits.events_max, limits.bytes_max,
                     limits.lifetime_ms, *batch.events),
                    self._keys(batch.key),
                )
                for batch in batches
            ],
            term,
        )  # fmt: skip
        return [
            Appended(True, answer[1].decode(), batch.state)
            if answer[0] == b"ok"
            else Appended(False, answer[1].decode(), answer[2])
            for batch, answer in zip(batches, answers, strict=True)
        ]

    async def snapshot(self, key: bytes) -> Snapshot:
        """Also raises BucketClosed: recovery has not opened the conversation's bucket on this Redis (yet)."""
        # No term: any edge answers for any conversation, and the script changes nothing.
        return _snapshot(await self._scripts.run("edge/snapshot_v1", bucket_of(key), 0, key))

    async def end(self, key: bytes) -> Place:
        """The place of the newest event, NOWHERE without a buffer."""
        return (await self.ends([self.stream_of(key)]))[0]

    async def ends(self, streams: Sequence[str]) -> list[Place]:
        """The same for many streams."""
        with _redis_errors():
            pipe = self._redis.pipeline(transaction=False)
            for stream in streams:
                pipe.xrevrange(stream, count=1)
            rows = await pipe.execute()
        return [entries[0][0] if (entries := _entries(row)) else NOWHERE for row in rows]

    async def since(self, key: bytes, place: Place) -> list[Entry] | None:
        """The events behind `place`, oldest first; None where they are not all kept, or the epoch is another."""
        with _redis_errors():
            rows = await self._redis.xrange(self.stream_of(key), min=str(place))
        entries = _entries(rows)
        # Found by its own id, a place proves that everything behind it is still there.
        return entries[1:] if entries and entries[0][0] == place else None

    async def tail(self, places: Mapping[str, Place], block_ms: int) -> dict[str, list[Entry]]:
        """Stream name -> what lies behind its place; waits up to `block_ms` where there is nothing anywhere."""
        with _redis_errors():
            found = await self._redis.xread(
                {stream: str(place) for stream, place in places.items()}, count=TAIL_EVENTS_MAX, block=block_ms
            )
        rows = cast("list[tuple[bytes, object]]", found or [])
        return {name.decode(): _entries(entries) for name, entries in rows}


@contextmanager
def _redis_errors() -> Generator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise RedisUnavailable("Redis does not answer") from error


def _entries(rows: object) -> list[Entry]:
    """A stream's rows as the client gives them. The client's types allow for much that our options rule out."""
    found = cast("list[tuple[bytes, dict[bytes, bytes]]]", rows or [])
    return [(Place(*map(int, ident.split(b"-"))), fields[b"e"]) for ident, fields in found]


def _snapshot(answer: Answer) -> Snapshot:
    words = [word.decode() for word in answer[1:]]
    revision, cancel, operation, state, generation, calls, paused = words[:7]
    waiting = words[7:]
    return Snapshot(
        revision=int(revision),
        cancel_generation=int(cancel),
        operation_id=operation,
        state=state,
        generation=int(generation),
        open_calls=int(calls) if calls else None,
        paused=paused,
        approvals=tuple(Approval(waiting[at], waiting[at + 1]) for at in range(0, len(waiting), 2)),
    )
