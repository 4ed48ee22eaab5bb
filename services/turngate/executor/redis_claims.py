"""Claims in Redis: shared by all workers of a group and kept when they die. Needs the redis package."""

from __future__ import annotations

from importlib import resources

from redis.asyncio import Redis

from turngate.executor.claims import Answered, Claim, Claimed, Held

KEEP_MS = 7 * 24 * 3_600_000
"""Longer than anything may deliver an order again."""


class RedisClaimStore:
    """One key per execution: `c:<owner>` while it is claimed, `r:<record>` once it is answered.

    redis: a client with `decode_responses=False`. prefix: of the keys; one per executor group.
    """

    durable = True

    def __init__(self, redis: Redis, *, prefix: str, keep_ms: int = KEEP_MS) -> None:
        self._redis = redis
        self._prefix = prefix
        self._keep_ms = keep_ms
        scripts = resources.files("turngate.executor").joinpath("lua")
        self._renew = redis.register_script(scripts.joinpath("renew_v1.lua").read_text("utf-8"))
        self._answer = redis.register_script(scripts.joinpath("answer_v1.lua").read_text("utf-8"))

    async def claim(self, key: str, *, owner: str, lease_ms: int | None) -> Claim:
        """lease_ms None: the claim stays for `keep_ms`, so nobody executes it again in the owner's place."""
        name, mine = self._name(key), b"c:" + owner.encode()
        while True:
            if await self._redis.set(name, mine, nx=True, px=lease_ms or self._keep_ms):
                return Claimed()
            stored = await self._redis.get(name)
            if stored is None:
                continue  # it expired between the two commands
            assert isinstance(stored, bytes), "the client must not decode responses"
            if stored[:2] == b"r:":
                return Answered(stored[2:])
            return Claimed() if stored == mine else Held()

    async def renew(self, key: str, *, owner: str, lease_ms: int) -> bool:
        return bool(await self._renew(keys=[self._name(key)], args=[b"c:" + owner.encode(), lease_ms]))

    async def answer(self, key: str, result: bytes) -> bytes:
        stored: bytes = await self._answer(keys=[self._name(key)], args=[b"r:" + result, self._keep_ms])
        return stored[2:]

    def _name(self, key: str) -> str:
        return f"{self._prefix}:claim:{key}"
