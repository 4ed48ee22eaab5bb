"""Buffers on a real Redis, and a reader of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson
import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.edge.replay import ReplayLimits, ReplayStore
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.codec import encode
from turngate.schemas.session import SessionEvent
from turngate.topology.keys import bucket_of

WAIT_SECONDS = 30.0
LIMITS = ReplayLimits(events_max=4, bytes_max=4_000, lifetime_ms=60_000)


def session_event(kind: str, event_id: str, **fields: Any) -> bytes:
    """The bytes of one event of acme/c1, as a role writes it."""
    named = {"tenant": "acme", "conversation": "c1", "type": kind, "event_id": event_id}
    return encode(SessionEvent.model_validate(named | fields))


async def open_bucket(redis: Redis, prefix: str, key: bytes) -> None:
    """What recovery does once it has reconciled a bucket."""
    replid = (await redis.info("replication"))["master_replid"]
    await Scripts(redis, prefix, "recovery").run("recovery/open_v1", bucket_of(key), 1, replid, "token", 1_000)


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event: its id ('' on control frames), its name ('message' without one), its data."""

    id: str
    name: str
    data: str

    @property
    def json(self) -> dict[str, Any]:
        value = orjson.loads(self.data)
        assert isinstance(value, dict)
        return value


class EventSource:
    """An open stream of a client."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, *, heartbeats: bool = False) -> Frame:
        """The next frame; heartbeats only where they are wanted."""
        while True:
            fields: dict[str, str] = {}
            async with asyncio.timeout(WAIT_SECONDS):
                async for line in self._lines:
                    if not line:
                        break
                    name, _, value = line.partition(": ")
                    assert name not in fields, "one line of data each"
                    fields[name] = value
            assert fields, "the stream ended"
            frame = Frame(fields.get("id", ""), fields.get("event", "message"), fields["data"])
            if heartbeats or frame.name != "heartbeat":
                return frame

    async def rest(self) -> None:
        """Returns when the stream has ended."""
        async with asyncio.timeout(WAIT_SECONDS):
            async for _ in self._lines:
                pass

    async def take(self, count: int) -> list[Frame]:
        return [await self.next() for _ in range(count)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not await condition():
            await asyncio.sleep(0.05)


@pytest.fixture
async def redis(stack: Stack) -> AsyncIterator[Redis]:
    client = Redis.from_url(stack.redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def store(redis: Redis, redis_prefix: str) -> ReplayStore:
    return ReplayStore(Scripts(redis, redis_prefix, "edge"), LIMITS)


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=WAIT_SECONDS, trust_env=False) as client:
        yield client


@pytest.fixture
def make_event() -> Callable[..., bytes]:
    return session_event


@pytest.fixture
def open_it() -> Callable[..., Awaitable[None]]:
    return open_bucket


@pytest.fixture
def wait() -> Callable[..., Awaitable[None]]:
    return until


@pytest.fixture
def event_source() -> type[EventSource]:
    return EventSource
