"""Settling: one terminal result per call; with the last one the tool turn and the request for the next turn."""

from __future__ import annotations

from turngate.domain.sequence import build_tool_turn
from turngate.ledger.records import LedgerRecords, stored_result
from turngate.ledger.store import LedgerStore
from turngate.runtime.records import Output
from turngate.runtime.redis.owed import pack, unpack
from turngate.schemas.codec import decode, encode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.tools import ToolResult
from turngate.schemas.turn import Turn


class Settling:
    """Settles calls of one partition."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    async def settle(
        self, result: ToolResult, source: str, at_ms: int, *, by_ledger: bool = False, carry_on: bool = True
    ) -> list[Output] | str:
        """Settles one call and, where it was the last, commits the tool turn.

        source: of the record that causes it; the very same record again gives the stored records. by_ledger: any open
        state is right. carry_on: whether a next turn may be asked for. Returns the outputs, or the reason of refusal.
        """
        key = conversation_key(result.tenant, result.conversation)
        records = LedgerRecords(result.tenant, result.conversation, at_ms)
        outputs = [records.settled(result)]
        reply = await self._store.run(
            "settle_v1", key, result.call_key, key, result.revision, source, result.idempotency_key,
            result.arguments_digest, result.generation, result.tool, result.status, encode(result), pack(outputs),
            "1" if by_ledger else "",
        )  # fmt: skip
        if reply[0] == b"foreign":
            return reply[1].decode()
        left = reply[1]
        if reply[0] == b"stored":
            outputs = unpack(reply[1])
            left = reply[2]
        if int(left) == 0:
            outputs += await self.commit_turn(key, result.revision, source, at_ms, carry_on=carry_on)
        return outputs

    async def commit_turn(
        self, key: bytes, revision: int, source: str, at_ms: int, *, carry_on: bool = True
    ) -> list[Output]:
        """The tool turn of an assistant turn whose calls are all settled, and what follows it."""
        view = await self._store.load(key, revision)
        assistant = decode(Turn, view.turn)
        turn = build_tool_turn(
            assistant.history_digest,
            tenant=assistant.tenant,
            conversation=assistant.conversation,
            revision=revision + 1,
            assistant_turn=assistant,
            results=[
                stored_result(call, assistant, edge)
                for call, edge in zip(view.calls, assistant.tool_edges, strict=True)
            ],
        )
        records = LedgerRecords(assistant.tenant, assistant.conversation, at_ms)
        alone = records.turn(turn)
        request = records.next_request(turn) if carry_on else None
        options = turn.options
        out_of_turns = options is not None and options.auto_continue and options.max_turns <= 1
        if carry_on and request is None and out_of_turns:
            alone = [*alone, records.length_notice(turn)]
        with_next = alone if request is None else [*alone, request]
        reply = await self._store.run(
            "turn_v1", key, key, revision, turn.revision, encode(turn), turn.history_digest, source, pack(with_next),
            pack(alone), "" if request is None else "1",
        )  # fmt: skip
        if reply[0] == b"stored":
            return unpack(reply[1])
        if reply[0] == b"late":
            return []
        return with_next if reply[1] == b"next" else alone
