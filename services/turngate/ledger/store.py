"""The ledger's side of Redis."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.runtime.redis.scripts import Answer, Scripts
from turngate.topology.keys import bucket_of


@dataclass(frozen=True, slots=True)
class CallView:
    """One call as Redis holds it. order and result are record bytes, empty where there is none yet."""

    call_key: str
    state: str
    attempt: int
    order: bytes
    result: bytes


@dataclass(frozen=True, slots=True)
class CallsView:
    """The calls of one assistant turn, in call order. left: how many are not settled, -1 where none were opened."""

    turn: bytes
    head_digest: str
    left: int
    calls: tuple[CallView, ...]


class LedgerStore:
    """Runs the ledger's scripts for one partition, under one term."""

    def __init__(self, scripts: Scripts, term: int) -> None:
        self._scripts = scripts
        self._term = term

    async def run(self, script: str, key: bytes, *args: str | bytes | int) -> Answer:
        """A script of `ledger/lua` on the bucket of a conversation key."""
        return await self._scripts.run(f"ledger/{script}", bucket_of(key), self._term, *args)

    async def load(self, key: bytes, revision: int) -> CallsView:
        """The calls of an assistant turn."""
        reply = await self.run("load_v1", key, key, revision)
        rows = reply[4:]
        calls = tuple(
            CallView(rows[at].decode(), rows[at + 1].decode(), int(rows[at + 2]), rows[at + 3], rows[at + 4])
            for at in range(0, len(rows), 5)
        )
        return CallsView(reply[1], reply[2].decode(), int(reply[3]) if reply[3] else -1, calls)
