"""The validator's side of Redis: what it reads of a conversation and the three answers it can store."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.runtime.redis.scripts import Answer, Scripts
from turngate.topology.keys import bucket_of


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer already given to this request id. content: digest of what was asked, '' where it is not known."""

    verdict: str
    records: bytes
    source: str
    content: str

    def holds(self) -> bool:
        """Whether the request is still held, so that another cause may answer it anew."""
        return self.verdict in ("WAITING", "PAUSED")


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The head of a conversation. `turns` are the bytes of the revisions the caller asked for."""

    revision: int
    history_digest: str
    cancel_generation: int
    open_operation: str
    calls_revision: str
    paused: str
    answer: StoredAnswer | None
    turns: tuple[bytes, ...]


class ValidatorStore:
    """Runs the validator's scripts for one partition, under one term."""

    def __init__(self, scripts: Scripts, term: int) -> None:
        self._scripts = scripts
        self._term = term

    async def load(self, key: bytes, request_id: str, first_revision: int) -> ConversationState:
        """The head, the stored answer to `request_id`, and the turns from `first_revision` on."""
        reply = await self._run("validator/load_v1", key, key, request_id, first_revision)
        words = [value.decode() for value in reply[1:9]]
        answer = None
        if words[6]:
            answer = StoredAnswer(words[6], reply[9], reply[10].decode(), reply[11].decode())
        return ConversationState(
            revision=int(words[0]),
            history_digest=words[1],
            cancel_generation=int(words[2]),
            open_operation=words[3],
            calls_revision=words[4],
            paused=words[5],
            answer=answer,
            turns=tuple(reply[12:]),
        )

    async def ready(self, key: bytes, *args: str | bytes | int) -> Answer:
        """Commits the input turn and creates the operation; see `lua/ready_v1.lua`."""
        return await self._run("validator/ready_v1", key, key, *args)

    async def hold(self, key: bytes, *args: str | bytes | int) -> Answer:
        """Stores a WAITING, PAUSED or REJECTED answer; see `lua/hold_v1.lua`."""
        return await self._run("validator/hold_v1", key, key, *args)

    async def pause(self, key: bytes, control_id: str, reason: str, records: bytes) -> Answer:
        """Pauses (reason) or resumes ('') a conversation; see `lua/pause_v1.lua`."""
        return await self._run("validator/pause_v1", key, key, control_id, reason, records)

    async def _run(self, script: str, key: bytes, *args: str | bytes | int) -> Answer:
        return await self._scripts.run(script, bucket_of(key), self._term, *args)
