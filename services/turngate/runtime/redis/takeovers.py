"""Take-overs counted in Redis, per group and partition: what outlives the process that a record kills."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.exceptions import RedisError

from turngate.runtime.logging import get_log
from turngate.runtime.redis.keys import takeovers_key
from turngate.runtime.redis.scripts import RedisUnavailable
from turngate.runtime.takeovers import Takeovers

KEEP_MS = 24 * 3_600_000
"""Since the last take-over or suspicion."""

TAKEN_OVER = """#!lua
-- Anybody may be killed while a record is stepped: it is the culprit where that has happened twice in a row.
local stored = redis.call('HMGET', KEYS[1], 'at', 'count', 'suspect', 'before')
local count, suspect = 1, ''
if stored[1] == ARGV[1] then
  count = tonumber(stored[2]) + 1
  if stored[3] and stored[3] == stored[4] then
    suspect = stored[3]
  elseif stored[3] then
    redis.call('HSET', KEYS[1], 'before', stored[3])
    redis.call('HDEL', KEYS[1], 'suspect')
  end
else
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'at', ARGV[1], 'count', string.format('%.0f', count))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {string.format('%.0f', count), suspect}
"""


class RedisTakeoverCounter:
    """A TakeoverCounter on plain keys of their own: it works while buckets are closed, and forgets after a day."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    async def taken_over(self, group: str, partition: int, position: str) -> Takeovers:
        """As the protocol says. A Redis that does not answer makes the count unknown, which stops nobody."""
        try:
            reply = await self._redis.eval(TAKEN_OVER, 1, self._key(group, partition), position, str(KEEP_MS))
        except (RedisError, OSError) as error:
            get_log().warning("takeovers_unknown", partition=partition, error=type(error).__name__)
            return Takeovers(0)
        count, suspect = (_text(part) for part in reply)
        return Takeovers(int(count), suspect or None)

    async def suspect(self, group: str, partition: int, record: str | None) -> None:
        """Raises RedisUnavailable: nothing is stepped in careful mode without its name on record."""
        pipe = self._redis.pipeline(transaction=True)
        if record is None:
            pipe.hdel(self._key(group, partition), "suspect")
        else:
            pipe.hset(self._key(group, partition), "suspect", record)
            pipe.pexpire(self._key(group, partition), KEEP_MS)
        try:
            await pipe.execute()
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error

    async def progressed(self, group: str, partition: int) -> None:
        """Raises RedisUnavailable."""
        try:
            await self._redis.delete(self._key(group, partition))
        except (RedisError, OSError) as error:
            raise RedisUnavailable("Redis does not answer") from error

    def _key(self, group: str, partition: int) -> str:
        return takeovers_key(self._prefix, group, partition)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
