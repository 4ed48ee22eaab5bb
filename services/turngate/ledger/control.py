"""The ledger's commands: approve, deny, timer, cancel and interrupt (DESIGN §6, §8, §11)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from turngate.domain.ledger.calls import (
    CANCELLED_TEXT,
    DENIAL_TEXT,
    UNKNOWN_TEXT,
    CallState,
    after_deadline,
)
from turngate.ledger.records import LedgerRecords, order_of, own_result
from turngate.ledger.settling import Settling
from turngate.ledger.store import CallsView, CallView, LedgerStore
from turngate.runtime.errors import Poison
from turngate.runtime.outbound import event_id, output, source_of
from turngate.runtime.records import InputRecord, Output
from turngate.runtime.redis.owed import pack, unpack
from turngate.schemas.blocks import ToolEdge
from turngate.schemas.codec import decode
from turngate.schemas.control import Control
from turngate.schemas.envelope import attempt_headers, conversation_key
from turngate.schemas.stream import EndFrame
from turngate.schemas.tools import ToolDeclaration, ToolOrder, ToolResult
from turngate.schemas.turn import Turn

if TYPE_CHECKING:
    from turngate.ledger.service import LedgerDeps

ROLE = "ledger"
MAY_HAVE_BEEN_SENT = frozenset({"DISPATCHING", "SENT", "STREAMING", "UNKNOWN", "CANCELLED"})
REVISION = re.compile("[0-9]{1,15}")
OPEN = frozenset({CallState.PENDING, CallState.AWAITING_APPROVAL, CallState.ORDERED, CallState.RUNNING})


class LedgerControl:
    """Handles the commands of one partition."""

    def __init__(
        self,
        store: LedgerStore,
        settling: Settling,
        deps: LedgerDeps,
        tools_of: Callable[[Turn], Awaitable[dict[str, ToolDeclaration]]],
    ) -> None:
        self._store = store
        self._settling = settling
        self._deps = deps
        self._tools_of = tools_of

    async def handle(self, record: InputRecord, control: Control) -> list[Output]:
        """The records one command gives. Raises Poison where it lacks what it needs."""
        match control.command:
            case "cancel" | "interrupt":
                return await self._cancel(record, control)
            case "approve" | "deny":
                return await self._decide(record, control)
            case "timer":
                return await self._timer(record, control)
            case _:
                raise Poison(record, "unsupported_command", f"the ledger has no command {control.command}")

    async def _call(self, record: InputRecord, control: Control) -> tuple[CallsView, Turn, CallView, ToolEdge] | None:
        """The call a command names, with its turn; None where there is none (any more)."""
        if control.call_key is None:
            raise Poison(record, "incomplete_command", f"{control.command} needs callKey")
        parts = control.call_key.split("/", 3)
        if len(parts) != 4 or not REVISION.fullmatch(parts[2]) or parts[:2] != [control.tenant, control.conversation]:
            raise Poison(record, "incomplete_command", "callKey is not tenant/conversation/revision/callId")
        view = await self._store.load(conversation_key(control.tenant, control.conversation), int(parts[2]))
        if not view.turn:
            return None
        turn = decode(Turn, view.turn)
        for call, edge in zip(view.calls, turn.tool_edges, strict=False):
            if call.call_key == control.call_key:
                return view, turn, call, edge
        return None

    # --- approvals -----------------------------------------------------------------------------------------------

    async def _decide(self, record: InputRecord, control: Control) -> list[Output]:
        found = await self._call(record, control)
        if found is None:
            return []
        view, turn, call, edge = found
        tools = await self._tools_of(turn)
        records = LedgerRecords(turn.tenant, turn.conversation, record.timestamp_ms)
        key = conversation_key(turn.tenant, turn.conversation)
        decision = "approved" if control.command == "approve" else "denied"
        told = [records.decision(call.call_key, edge, turn.revision, decision)]
        if control.command == "deny":
            result = own_result(
                turn, edge, attempt=call.attempt, status="cancelled", reason="aborted", text=DENIAL_TEXT
            )
            if call.state not in (CallState.AWAITING_APPROVAL, CallState.SETTLED):
                return []
            settled = await self._settling.settle(result, source_of(record), record.timestamp_ms, by_ledger=True)
            if isinstance(settled, str):
                return []
            return told + settled + await self._ask_next(view, turn, records, key)
        order = self._order(turn, edge, tools[edge.tool], 1, key)
        outputs = [*told, records.order(order)]
        reply = await self._store.run(
            "order_v1", key, call.call_key, control.control_id, source_of(record), CallState.AWAITING_APPROVAL, 0,
            outputs[-1].value, tools[edge.tool].deadline_ms, pack(outputs),
        )  # fmt: skip
        if reply[0] == b"late":
            return []
        if reply[0] == b"stored":
            outputs = unpack(reply[1])
        return outputs + await self._ask_next(view, turn, records, key)

    async def _ask_next(self, view: CallsView, turn: Turn, records: LedgerRecords, key: bytes) -> list[Output]:
        """The next approval, in call order; asked again by a redo, under the same event id."""
        for call, edge in zip(view.calls, turn.tool_edges, strict=True):
            if call.state == CallState.PENDING:
                reply = await self._store.run("ask_v1", key, call.call_key)
                if reply[0] == b"ok":
                    return [records.ask(call.call_key, edge, turn.revision)]
        return []

    def _order(self, turn: Turn, edge: ToolEdge, tool: ToolDeclaration, attempt: int, key: bytes) -> ToolOrder:
        now = self._deps.clock.wall_ms()
        return order_of(turn, edge, tool, attempt=attempt, now_ms=now, reply_to=self._deps.reply_to(key))

    # --- deadlines -----------------------------------------------------------------------------------------------

    async def _timer(self, record: InputRecord, control: Control) -> list[Output]:
        found = await self._call(record, control)
        if found is None:
            return []
        _, turn, call, edge = found
        tool = (await self._tools_of(turn))[edge.tool]
        key = conversation_key(turn.tenant, turn.conversation)
        records = LedgerRecords(turn.tenant, turn.conversation, record.timestamp_ms)
        if after_deadline(tool.side_effects, call.attempt) == "settle_unknown" or call.state == CallState.SETTLED:
            result = own_result(
                turn, edge, attempt=call.attempt, status="error", reason="outcome_unknown", text=UNKNOWN_TEXT
            )
            settled = await self._settling.settle(result, source_of(record), record.timestamp_ms, by_ledger=True)
            return [] if isinstance(settled, str) else settled
        order = self._order(turn, edge, tool, call.attempt + 1, key)
        outputs = [records.order(order)]
        reply = await self._store.run(
            "order_v1", key, call.call_key, control.control_id, source_of(record), CallState.ORDERED, call.attempt,
            outputs[0].value, tool.deadline_ms, pack(outputs),
        )  # fmt: skip
        if reply[0] == b"stored":
            return unpack(reply[1])
        return outputs if reply[0] == b"ok" else []

    # --- cancel --------------------------------------------------------------------------------------------------

    async def _cancel(self, record: InputRecord, control: Control) -> list[Output]:
        key = conversation_key(control.tenant, control.conversation)
        expected = "" if control.expected_cancel_generation is None else control.expected_cancel_generation
        reply = await self._store.run(
            "cancel_v1", key, key, control.control_id, control.operation_id or "", expected, source_of(record)
        )
        if reply[0] != b"ok" or reply[6] != b"1":
            return []
        operation, state = reply[1].decode(), reply[2].decode()
        generation, relay, calls = int(reply[3]), int(reply[4]), reply[5].decode()
        records = LedgerRecords(control.tenant, control.conversation, record.timestamp_ms)
        outputs: list[Output] = []
        if calls:
            outputs += await self._cancel_calls(record, key, int(calls), records)
        if operation and state in MAY_HAVE_BEEN_SENT:
            outputs.append(self._end_frame(control, operation, generation, relay))
        else:
            outputs.append(records.event("abort", (control.control_id,), control_id=control.control_id))
        return outputs

    async def _cancel_calls(
        self, record: InputRecord, key: bytes, revision: int, records: LedgerRecords
    ) -> list[Output]:
        view = await self._store.load(key, revision)
        turn = decode(Turn, view.turn)
        outputs: list[Output] = []
        for call, edge in zip(view.calls, turn.tool_edges, strict=True):
            if call.order and call.state in (CallState.ORDERED, CallState.RUNNING):
                outputs.append(records.cancel_order(decode(ToolOrder, call.order), "cancelled"))
            result: ToolResult = own_result(
                turn, edge, attempt=call.attempt, status="cancelled", reason="cancelled", text=CANCELLED_TEXT
            )
            settled = await self._settling.settle(
                result, source_of(record), record.timestamp_ms, by_ledger=True, carry_on=False
            )
            outputs += [] if isinstance(settled, str) else settled
        return outputs

    def _end_frame(self, control: Control, operation: str, generation: int, relay: int) -> Output:
        frame = EndFrame(
            tenant=control.tenant,
            conversation=control.conversation,
            operation_id=operation,
            generation=generation,
            relay=relay,
            cause="cancelled",
            control_id=control.control_id,
        )
        return output(
            "stream-events", frame, tenant=control.tenant, conversation=control.conversation, role=ROLE,
            event_id=event_id("cancel", operation, generation, control.control_id),
            headers=attempt_headers(operation, generation, relay),
        )  # fmt: skip
