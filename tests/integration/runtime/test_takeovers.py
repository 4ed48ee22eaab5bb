"""Take-overs without progress are counted beyond the life of a process, and the record that causes them is found."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.devstack.ports import free_ports
from turngate.devstack.supervisor import ProcessSpec, RestartPolicy, Supervisor
from turngate.runtime.redis.scripts import RedisUnavailable
from turngate.runtime.redis.takeovers import KEEP_MS, RedisTakeoverCounter
from turngate.runtime.takeovers import Takeovers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

GROUP = "t.validator"
ROLE_NAMES = ("validator", "dispatcher", "reassembler", "ledger", "recovery", "edge")
WORKER = Path(__file__).with_name("dying_worker.py")
SETTLE_SECONDS = 120.0


@pytest.fixture
async def redis(stack: Stack) -> AsyncGenerator[Redis]:
    async with Redis.from_url(stack.redis_url) as client:
        yield client


async def test_the_count_belongs_to_a_position_and_outlives_the_counter(redis: Redis, redis_prefix: str) -> None:
    async def at(position: str, partition: int = 0) -> Takeovers:
        return await RedisTakeoverCounter(redis, redis_prefix).taken_over(GROUP, partition, position)

    assert [await at("a@1"), await at("a@1"), await at("a@2")] == [Takeovers(1), Takeovers(2), Takeovers(1)]
    await RedisTakeoverCounter(redis, redis_prefix).suspect(GROUP, 0, "a/0@2")
    assert [await at("a@2"), await at("a@2", 1)] == [Takeovers(2), Takeovers(1)], "it may have been killed by anybody"
    assert await at("a@2") == Takeovers(3), "killed before anything was stepped"
    await RedisTakeoverCounter(redis, redis_prefix).suspect(GROUP, 0, "a/0@2")
    assert await at("a@2") == Takeovers(4, "a/0@2"), "the same record twice"
    await RedisTakeoverCounter(redis, redis_prefix).progressed(GROUP, 0)
    assert await at("a@2") == Takeovers(1)
    await RedisTakeoverCounter(redis, redis_prefix).suspect(GROUP, 0, "a/0@3")
    assert await at("a@4") == Takeovers(1), "a suspect of another position is none"
    await RedisTakeoverCounter(redis, redis_prefix).suspect(GROUP, 0, "a/0@4")
    await RedisTakeoverCounter(redis, redis_prefix).suspect(GROUP, 0, None)
    assert await at("a@4") == Takeovers(2), "the step is over"


async def test_what_was_counted_is_forgotten_after_a_day(redis: Redis, redis_prefix: str) -> None:
    counter = RedisTakeoverCounter(redis, redis_prefix)
    for note in (counter.taken_over(GROUP, 0, "a@1"), counter.suspect(GROUP, 1, "a/1@1")):
        await note
    names = [name async for name in redis.scan_iter(match=f"{redis_prefix}:*")]
    assert len(names) == 2
    for name in names:
        assert 0 < await redis.pttl(name) <= KEEP_MS


async def test_a_redis_that_is_away_stops_no_take_over() -> None:
    (port,) = free_ports(1)
    async with Redis.from_url(f"redis://127.0.0.1:{port}/0") as away:
        counter = RedisTakeoverCounter(away, "t")
        assert await counter.taken_over(GROUP, 0, "a@1") == Takeovers(0)
        with pytest.raises(RedisUnavailable):
            await counter.suspect(GROUP, 0, "a/0@1")


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_every_role_counts_in_redis(role: str) -> None:
    source = Path(str(import_module(f"turngate.{role}.__main__").__file__)).read_text()
    assert "takeover_counter=redis.takeovers" in source


async def test_a_record_that_kills_its_process_is_found_and_the_partition_goes_on(
    lab: Any, key_on: Any, tmp_path: Path
) -> None:
    key, other = key_on(0, 0), key_on(0, 1)
    await lab.produce("turn-requests", [(key, b"die", None), (other, b"1", None), (key, b"2", None)])
    # Stepped by the same process at the same time: what dies with the culprit is not taken for it.
    await lab.produce("turn-requests", [(key_on(number), b"beside", None) for number in (1, 2, 3)])
    (port,) = free_ports(1)
    env = {
        "TURNGATE_KAFKA": lab.stack.kafka_bootstrap, "TURNGATE_REDIS": lab.stack.redis_url,
        "TURNGATE_TOPIC_PREFIX": lab.prefix, "TURNGATE_PARTITIONS": "4", "TURNGATE_ENVIRONMENT": "dev",
        "TURNGATE_INSTANCE_ID": "dying", "TURNGATE_HTTP_PORT": str(port), "TURNGATE_SESSION_TIMEOUT_MS": "6000",
        "TURNGATE_STATIC_MEMBERSHIP": "true", "TURNGATE_DRAIN_SECONDS": "3",
    }  # fmt: skip
    spec = ProcessSpec(
        "dying", (sys.executable, str(WORKER)), tmp_path / "dying.log", env, restart=RestartPolicy(8, 0.1)
    )
    async with Supervisor() as supervisor:
        supervisor.start(spec)
        deadline = time.monotonic() + SETTLE_SECONDS
        while (await lab.committed("turn-requests", 0)).offset < 3:
            assert time.monotonic() < deadline, (tmp_path / "dying.log").read_text()[-2000:]
            await asyncio.sleep(0.2)
        assert supervisor.starts("dying") == 5, "four deaths, two of them with its name on file: then it is known"
        await lab.produce("turn-requests", [(key, b"3", None)])
        while (await lab.committed("turn-requests", 0)).offset < 4:
            assert time.monotonic() < deadline, (tmp_path / "dying.log").read_text()[-2000:]
            await asyncio.sleep(0.2)
    letters = [json.loads(value) for value in await lab.values("dead-letters")]
    origin = {"topic": "turn-requests", "partition": 0, "offset": 0}
    assert [(letter["reason"], letter["origin"]) for letter in letters] == [("kills_worker", origin)]
    assert sorted(await lab.values("verdicts")) == [b"1", b"2", b"3", b"beside", b"beside", b"beside"]
    assert supervisor.starts("dying") == 5
