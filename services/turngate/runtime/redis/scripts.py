"""Loads the Lua scripts that ship beside the roles and runs them, alone or many in one round trip.

A script file is `turngate/<role>/lua/<verb>_v<N>.lua`; its name is `<role>/<verb>_v<N>`. The shared prologue is put in
front of each at load, with the guard (bucket open on this server, term not superseded) behind it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turngate.runtime.redis.keys import bucket_keys
from turngate.schemas.errors import LostFence, Retryable, TurngateError

ROOMS = ("validator", "dispatcher", "reassembler", "ledger", "recovery", "edge")
CLOSED_BUCKET_PREFIXES = ("recovery/open_", "recovery/bucket_", "recovery/adopt_", "edge/append_")
"""Scripts that work on a bucket that is not open: they run without the guard, and only ever raise what they find, or
touch nothing of the bucket (the edge's replay buffer)."""

PLANTS = {"resend": ("dispatcher/accept_v1", "v[7] == arg(3) and v[9] == v[5] and live", "live")}
"""Faults for tests of the audit: a fence taken out of a script. Settings refuse them outside dev."""

NOT_READY = ("LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN")
"""How errors begin that pass by themselves."""

ROUND_TRIP_CALLS_MAX = 100
"""Of those that were asked for at once: what is sent together is held in memory together."""

Answer = list[bytes]
"""A script's reply: the outcome word first, then its values."""


class BucketClosed(Retryable):
    """The bucket is not open on this Redis server; recovery opens it once it has reconciled it."""

    code = "bucket_closed"


class RedisUnavailable(Retryable):
    """Redis does not answer, or lost the reply; the same call is made again and gets the stored answer."""

    code = "redis_unavailable"


class TermFenced(LostFence):
    """A later owner of this partition has already been seen by the bucket."""

    code = "term_fenced"


class ScriptFailed(TurngateError):
    """A script raised: a programmer's error, never an expected outcome."""

    code = "script_failed"


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a script on one bucket. keys: more keys of the bucket's slot, behind the eight."""

    script: str
    bucket: int
    args: tuple[str | bytes | int, ...]
    keys: tuple[str, ...] = ()


Asked = tuple[Call, int, asyncio.Future[Answer]]
"""A call that waits for its round trip, under which term, and who waits."""


class Scripts:
    """All scripts on one Redis connection pool, under one key prefix.

    role and term identify the caller to the prologue; `term` grows with every take-over of a partition.
    """

    def __init__(self, redis: Redis, prefix: str, role: str, plant: str | None = None) -> None:
        self._redis = redis
        self._prefix = prefix
        self._role = role
        self._asked: list[Asked] = []
        self._trips: set[asyncio.Task[None]] = set()
        self._sources = load_sources()
        if plant is not None:
            script, fence, hole = PLANTS[plant]
            assert fence in self._sources[script], "the fence to take out is there"
            self._sources[script] = self._sources[script].replace(fence, hole)
        self._shas = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in self._sources.items()
        }

    @property
    def redis(self) -> Redis:
        """The client itself, for plain reads and for the few keys outside buckets."""
        return self._redis

    @property
    def prefix(self) -> str:
        return self._prefix

    async def run(self, script: str, bucket: int, term: int, *args: str | bytes | int) -> Answer:
        """One script. Raises BucketClosed, TermFenced, RedisUnavailable or ScriptFailed.

        What is asked for in the same turn of the event loop, by conversations that go side by side, shares round trips.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._set_out)
        self._asked.append((Call(script, bucket, args), term, answer))
        return await answer

    def _set_out(self) -> None:
        asked, self._asked = self._asked, []
        for at in range(0, len(asked), ROUND_TRIP_CALLS_MAX):
            trip = asyncio.create_task(self._round_trip(asked[at : at + ROUND_TRIP_CALLS_MAX]))
            self._trips.add(trip)
            trip.add_done_callback(self._trips.discard)

    async def _round_trip(self, asked: Sequence[Asked]) -> None:
        """Every caller gets its own answer or error; one that was cancelled meanwhile waits for neither."""
        try:
            replies = await self._replies([(call, term) for call, term, _ in asked])
        except Exception as error:
            for _, _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (call, _, answer), reply in zip(asked, replies, strict=True):
            if answer.done():
                continue
            try:
                answer.set_result(self._answer(call, reply))
            except Exception as error:
                answer.set_exception(error)

    async def run_many(self, calls: Sequence[Call], term: int) -> list[Answer]:
        """Many scripts in one round trip, in order; answers in the same order.

        Raises the first error among the answers; every script is idempotent, so the whole list may be run again.
        """
        if not calls:
            return []
        replies = await self._replies([(call, term) for call in calls])
        return [self._answer(call, reply) for call, reply in zip(calls, replies, strict=True)]

    async def _replies(self, calls: Sequence[tuple[Call, int]]) -> list[object]:
        replies = await self._send(calls)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            await self._load()
            replies = await self._send(calls)
        return replies

    async def _send(self, calls: Sequence[tuple[Call, int]]) -> list[object]:
        pipe = self._redis.pipeline(transaction=False)
        for call, term in calls:
            keys = (*bucket_keys(self._prefix, call.bucket), *call.keys)
            pipe.evalsha(self._shas[call.script], len(keys), *keys, self._role, term, *call.args)
        try:
            return list(await pipe.execute(raise_on_error=False))
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error

    async def _load(self) -> None:
        try:
            pipe = self._redis.pipeline(transaction=False)
            for text in self._sources.values():
                pipe.script_load(text)
            await pipe.execute()
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error

    def _answer(self, call: Call, reply: object) -> Answer:
        if isinstance(reply, RedisConnectionError | RedisTimeoutError | ReadOnlyError | NoScriptError):
            raise RedisUnavailable(f"{call.script}: Redis is not ready") from reply
        if isinstance(reply, RedisError):
            if str(reply).startswith(NOT_READY):
                raise RedisUnavailable(f"{call.script}: Redis is not ready") from reply
            raise ScriptFailed(f"{call.script} failed in Redis") from reply
        if not isinstance(reply, list) or not reply:
            raise ScriptFailed(f"{call.script} gave no answer")
        if reply[0] == b"RECONCILE":
            raise BucketClosed(f"bucket {call.bucket} is not open on this server")
        if reply[0] == b"FENCED":
            raise TermFenced(f"bucket {call.bucket} has seen a later owner of role {self._role}")
        return reply


def load_sources() -> dict[str, str]:
    """Script name -> full text as loaded: `#!lua`, the prologue where it applies, the script."""
    shared = resources.files("turngate.runtime.redis").joinpath("lua")
    prologue, guard = (shared.joinpath(name).read_text() for name in ("prologue.lua", "guard.lua"))
    sources: dict[str, str] = {}
    for room in ROOMS:
        folder = resources.files(f"turngate.{room}").joinpath("lua")
        if not folder.is_dir():
            continue
        for entry in sorted(folder.iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".lua"):
                name = f"{room}/{entry.name.removesuffix('.lua')}"
                head = prologue if name.startswith(CLOSED_BUCKET_PREFIXES) else prologue + guard
                sources[name] = f"#!lua\n{head}{entry.read_text()}"
    return sources
