"""A role's Redis under more callers at once than it has connections."""

from __future__ import annotations

import asyncio

import pytest

from turngate.devstack.base import Stack
from turngate.runtime.app import RoleContext
from turngate.runtime.clock import SystemClock
from turngate.runtime.logging import get_log
from turngate.runtime.metrics import Metrics
from turngate.runtime.redis.client import CONNECTIONS_MAX, open_redis
from turngate.runtime.settings import Settings

pytestmark = pytest.mark.kafka


async def test_callers_beyond_the_connections_wait_their_turn(stack: Stack) -> None:
    settings = Settings.model_validate({"kafka": stack.kafka_bootstrap, "redis": stack.redis_url, "environment": "dev"})
    context = RoleContext("validator", settings, SystemClock(), Metrics(), get_log())
    async with open_redis(context) as role:
        answers = await asyncio.gather(*(role.redis.echo(str(number)) for number in range(CONNECTIONS_MAX * 5)))
    assert answers == [str(number).encode() for number in range(CONNECTIONS_MAX * 5)]
