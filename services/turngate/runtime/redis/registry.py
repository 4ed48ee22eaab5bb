"""What lives outside buckets: immutable toolsets by digest, and the boot numbers of instances."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from turngate.runtime.redis.keys import instances_key, toolset_key
from turngate.runtime.redis.scripts import RedisUnavailable
from turngate.schemas.codec import decode, encode
from turngate.schemas.errors import TurngateError
from turngate.schemas.tools import Toolset

CACHE_MAX = 256

RAISE_BOOT = """#!lua
local stored = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local boot = tonumber(ARGV[2])
if boot <= stored then boot = stored + 1 end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', boot))
return string.format('%.0f', boot)
"""
"""Boot numbers only rise, also where the clock was set back: an equal number could hide a restart."""


class ToolsetUnknown(TurngateError):
    """A record names a toolset that the fleet does not have: it was never registered, or it was refused."""

    code = "unknown_toolset"


class Toolsets:
    """Toolsets by digest, cached without end of validity since they never change."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._cache: OrderedDict[str, Toolset] = OrderedDict()

    async def get(self, digest: str) -> Toolset | None:
        """The toolset, or None where Redis does not hold it (yet). Raises RedisUnavailable."""
        found = self._cache.get(digest)
        if found is not None:
            self._cache.move_to_end(digest)
            return found
        try:
            data = await self._redis.get(toolset_key(self._prefix, digest))
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error
        if data is None:
            return None
        toolset = decode(Toolset, data if isinstance(data, bytes) else data.encode())
        self._cache[digest] = toolset
        if len(self._cache) > CACHE_MAX:
            self._cache.popitem(last=False)
        return toolset

    async def require(self, digest: str, bucket_open: Callable[[], Awaitable[object]]) -> Toolset:
        """A toolset that must be known by now, since what names it was accepted.

        bucket_open: raises BucketClosed while the record's bucket is. It is opened only after every toolset of the
        topic has been loaded, so what an open bucket's record names and Redis lacks, nobody will bring. Raises
        ToolsetUnknown then; waiting would stop the partition for everybody.
        """
        found = await self.get(digest)
        if found is None:
            await bucket_open()
            found = await self.get(digest)
        if found is None:
            raise ToolsetUnknown("the toolset is not known: it was never registered, or it was refused")
        return found

    async def put(self, toolset: Toolset) -> None:
        """Stores a toolset under its digest; storing it again changes nothing. Raises RedisUnavailable."""
        try:
            await self._redis.set(toolset_key(self._prefix, toolset.toolset_digest), encode(toolset), nx=True)
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error


async def register_instance(redis: Redis, prefix: str, instance: str, now_ms: int) -> int:
    """Registers a started process under its stable instance id; returns its boot number (start in ms, rising).

    A higher boot number is evidence that every earlier process of this id is gone. Raises RedisUnavailable.
    """
    try:
        return int(await redis.eval(RAISE_BOOT, 1, instances_key(prefix), instance, str(now_ms)))
    except (RedisError, OSError) as error:
        raise RedisUnavailable("Redis does not answer") from error


async def boot_numbers(redis: Redis, prefix: str) -> dict[str, int]:
    """Instance id -> highest boot number registered. Raises RedisUnavailable."""
    try:
        rows = await redis.hgetall(instances_key(prefix))
    except (RedisError, OSError) as error:
        raise RedisUnavailable("Redis does not answer") from error
    return {_text(name): int(value) for name, value in rows.items()}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
