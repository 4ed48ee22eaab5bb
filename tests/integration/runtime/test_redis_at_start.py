"""A role looks at its Redis before it begins: what a fleet cannot work on is refused with what to set."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.devstack.ports import free_ports
from turngate.runtime.app import RoleContext
from turngate.runtime.clock import SystemClock
from turngate.runtime.logging import get_log
from turngate.runtime.metrics import Metrics
from turngate.runtime.redis import server
from turngate.runtime.redis.client import open_redis
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError, Retryable

pytestmark = pytest.mark.kafka

LIMIT_BYTES = 1 << 30


def role(url: str, environment: str = "production") -> RoleContext:
    values: dict[str, Any] = {"kafka": "127.0.0.1:1", "redis": url, "environment": environment, "tenants": ["acme"]}
    return RoleContext("validator", Settings.model_validate(values), SystemClock(), Metrics(), get_log())


@pytest.fixture
async def admin(stack: Stack) -> AsyncGenerator[Redis]:
    async with Redis.from_url(stack.redis_url) as client:
        yield client


@asynccontextmanager
async def set_to(admin: Redis, **wanted: object) -> AsyncGenerator[None]:
    """The server with other settings; as before at the end."""
    names = {name: name.replace("_", "-") for name in wanted}
    before = {name: (await admin.config_get(name))[name] for name in names.values()}
    try:
        for name, value in wanted.items():
            await admin.config_set(names[name], str(value))
        yield
    finally:
        for name, value in before.items():
            await admin.config_set(name, value)


@asynccontextmanager
async def user(stack: Stack, admin: Redis, *rights: str) -> AsyncGenerator[str]:
    """The URL of a user with these rights."""
    name, password = f"t{secrets.token_hex(4)}", secrets.token_hex(8)
    await admin.execute_command("ACL", "SETUSER", name, "on", f">{password}", "~*", "&*", *rights)
    try:
        parts = urlsplit(stack.redis_url)
        netloc = f"{name}:{password}@{parts.hostname}:{parts.port}"
        yield urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    finally:
        await admin.execute_command("ACL", "DELUSER", name)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_may_evict_is_refused_with_what_to_set(stack: Stack, admin: Redis, policy: str) -> None:
    async with set_to(admin, maxmemory_policy=policy, maxmemory=LIMIT_BYTES):
        with pytest.raises(ConfigurationError, match=f"{policy}. Set maxmemory-policy to noeviction .* TURNGATE_REDIS"):
            async with open_redis(role(stack.redis_url)):
                pytest.fail("it was opened")


async def test_in_dev_it_is_only_said(stack: Stack, admin: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, object]] = []
    context = role(stack.redis_url, "dev")
    log = context.log.bind()
    monkeypatch.setattr(log, "warning", lambda event, **fields: said.append((event, fields["maxmemory_policy"])))
    context.log = log
    async with set_to(admin, maxmemory_policy="allkeys-lru", maxmemory=LIMIT_BYTES), open_redis(context) as redis:
        assert await redis.redis.ping()
    assert said == [("redis_may_evict", "allkeys-lru")]


async def test_without_a_limit_or_with_noeviction_it_is_fit(stack: Stack, admin: Redis) -> None:
    for changes in (
        {"maxmemory_policy": "allkeys-lru", "maxmemory": 0},
        {"maxmemory_policy": "noeviction", "maxmemory": LIMIT_BYTES},
    ):
        async with set_to(admin, **changes), open_redis(role(stack.redis_url)) as redis:
            assert await redis.redis.ping()


async def test_a_user_without_config_is_checked_all_the_same(stack: Stack, admin: Redis) -> None:
    async with user(stack, admin, "+@all", "-config") as url:
        async with open_redis(role(url)) as redis:
            assert await redis.redis.ping()
        async with set_to(admin, maxmemory_policy="allkeys-lru", maxmemory=LIMIT_BYTES):
            with pytest.raises(ConfigurationError, match="maxmemory-policy"):
                async with open_redis(role(url)):
                    pytest.fail("it was opened")


@pytest.mark.parametrize("environment", ["production", "dev"])
@pytest.mark.parametrize("missing", ["-info", "-eval"])
async def test_scripts_that_may_not_read_info_are_refused(
    stack: Stack, admin: Redis, missing: str, environment: str
) -> None:
    async with user(stack, admin, "+@all", missing) as url:
        with pytest.raises(ConfigurationError, match="INFO") as raised:
            async with open_redis(role(url, environment)):
                pytest.fail("it was opened")
        assert str(urlsplit(url).password) not in str(raised.value)


async def test_a_wrong_password_is_something_to_set(stack: Stack, admin: Redis) -> None:
    async with user(stack, admin, "+@all") as url:
        wrong = url.replace(str(urlsplit(url).password), "wrong")
        with pytest.raises(ConfigurationError, match="TURNGATE_REDIS"):
            async with open_redis(role(wrong)):
                pytest.fail("it was opened")


async def test_a_server_that_is_away_is_waited_for_until_the_role_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "AGAIN_SECONDS", 0.01)
    (port,) = free_ports(1)
    context = role(f"redis://127.0.0.1:{port}/0")

    async def opening() -> None:
        async with open_redis(context):
            pytest.fail("it was opened")

    waiting = asyncio.create_task(opening())
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    context.stopping.set()
    async with asyncio.timeout(30):
        with pytest.raises(Retryable):
            await waiting
