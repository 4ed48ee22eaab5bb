"""Asks a Redis server once, at start, for what a fleet cannot work without (DESIGN §6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turngate.runtime.logging import Log
from turngate.runtime.redis.scripts import NOT_READY, RedisUnavailable
from turngate.schemas.errors import ConfigurationError

AGAIN_SECONDS = 0.5
WANTED_POLICY = "noeviction"

READ_INFO = "#!lua\nreturn redis.call('INFO', 'replication')"
"""What the guard of every script does to see which server it runs on."""


async def check_server(redis: Redis, *, environment: str, log: Log, stopping: asyncio.Event) -> None:
    """Returns once the server has answered well; waits for one that is away.

    Raises ConfigurationError where something is to be set, RedisUnavailable where the process is stopped meanwhile.
    """
    complained = False
    while True:
        try:
            await _check_scripts(redis)
            await _check_eviction(redis, environment, log)
        except RedisUnavailable as error:
            if stopping.is_set():
                raise
            if not complained:
                log.warning("redis_not_ready", code=error.code)
                complained = True
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


async def _check_scripts(redis: Redis) -> None:
    try:
        reply = await redis.eval(READ_INFO, 0)
    except AuthenticationError as error:
        raise ConfigurationError("Redis refuses the user or password in TURNGATE_REDIS: set the right ones") from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise RedisUnavailable("Redis does not answer") from error
    except RedisError as error:
        if str(error).startswith(NOT_READY):
            raise RedisUnavailable("Redis is not ready") from error
        raise ConfigurationError(
            "Redis does not let scripts read INFO, by which they notice a restart or a failover: allow the user of "
            "TURNGATE_REDIS EVAL, EVALSHA, SCRIPT LOAD and INFO (ACL SETUSER: +@scripting +info), on Redis 7 or newer"
        ) from error
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    if "master_replid:" not in text:
        raise ConfigurationError(
            "INFO replication of this Redis has no master_replid, by which scripts notice a restart or a failover: "
            "set TURNGATE_REDIS to a Redis or Valkey primary"
        )


async def _check_eviction(redis: Redis, environment: str, log: Log) -> None:
    """INFO and not CONFIG, which managed servers do not allow: the check before has shown that INFO may be read."""
    try:
        memory: Mapping[str, object] = await redis.info("memory")
    except ResponseError as error:
        raise RedisUnavailable("Redis is not ready") from error
    except (RedisError, OSError) as error:
        raise RedisUnavailable("Redis does not answer") from error
    policy, limit = str(memory.get("maxmemory_policy", "unknown")), int(str(memory.get("maxmemory", 0)))
    if policy == WANTED_POLICY or limit == 0:
        return
    if environment == "dev":
        log.warning("redis_may_evict", maxmemory_policy=policy, maxmemory_bytes=limit)
        return
    raise ConfigurationError(
        f"Redis may evict what decides who wins: its maxmemory is {limit} bytes and its maxmemory-policy {policy}. "
        f"Set maxmemory-policy to {WANTED_POLICY} on the server that TURNGATE_REDIS names"
    )
