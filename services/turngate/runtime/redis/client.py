"""Opens the Redis of a role, and checks once what a fleet cannot work without."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from turngate.runtime.app import RoleContext
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.runtime.redis.server import check_server
from turngate.runtime.redis.takeovers import RedisTakeoverCounter

SOCKET_SECONDS = 5.0
CONNECTIONS_MAX = 100
"""Of one process. A batch steps hundreds of conversations side by side: the others wait for a connection."""


@dataclass(frozen=True, slots=True)
class RoleRedis:
    """What a role uses of Redis."""

    redis: Redis
    scripts: Scripts
    toolsets: Toolsets
    takeovers: RedisTakeoverCounter


@asynccontextmanager
async def open_redis(context: RoleContext) -> AsyncGenerator[RoleRedis]:
    """The role's Redis, closed at the end. Nothing is retried below us: a lost reply is our idempotence's business.

    Waits for a server that is away. Raises ConfigurationError where the server is not fit for a fleet.
    """
    settings = context.settings
    # The plain pool raises where it has no connection left, so that a large batch would fail at every retry.
    pool = BlockingConnectionPool.from_url(
        settings.redis,
        **settings.redis_client_options(),
        max_connections=CONNECTIONS_MAX,
        timeout=SOCKET_SECONDS,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        health_check_interval=0,
    )
    redis = Redis.from_pool(pool)
    try:
        await check_server(redis, environment=settings.environment, log=context.log, stopping=context.stopping)
        yield RoleRedis(
            redis=redis,
            scripts=Scripts(redis, settings.topic_prefix, context.name, settings.plant),
            toolsets=Toolsets(redis, settings.topic_prefix),
            takeovers=RedisTakeoverCounter(redis, settings.topic_prefix),
        )
    finally:
        await redis.aclose()


async def server_replid(redis: Redis) -> str:
    """The server's replication id, '' while Redis is away: it is only written down, never decided on."""
    try:
        return str((await redis.info("replication")).get("master_replid", ""))
    except (RedisError, OSError):
        return ""


def new_token() -> str:
    """A bucket's token: any value nobody else draws."""
    return secrets.token_hex(8)
