"""The records the ledger writes: orders, results of its own, session events, the next turn's request."""

from __future__ import annotations

from turngate.domain.ledger.calls import CallState
from turngate.ledger.store import CallView
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import Output
from turngate.schemas.blocks import ResultStatus, ToolEdge
from turngate.schemas.digests import call_idempotency_key, call_key
from turngate.schemas.registry import decode_any
from turngate.schemas.requests import TurnRequest
from turngate.schemas.session import SessionEvent
from turngate.schemas.tools import ReplyTo, ToolCancel, ToolDeclaration, ToolOrder, ToolResult
from turngate.schemas.turn import Turn, turn_digest

ROLE = "ledger"


def arguments_of(turn: Turn, call_id: str) -> str:
    """The exact argument text of a committed call."""
    for block in turn.blocks:
        if block.kind == "tool_call" and block.call_id == call_id:
            return block.content.arguments_raw or "{}"
    raise AssertionError("every edge of a committed turn has its call block")


def order_of(
    turn: Turn, edge: ToolEdge, tool: ToolDeclaration, *, attempt: int, now_ms: int, reply_to: ReplyTo
) -> ToolOrder:
    """Execution number `attempt` of a call; every execution runs under the same idempotency key."""
    key = call_key(turn.tenant, turn.conversation, turn.revision, edge.call_id)
    return ToolOrder(
        tenant=turn.tenant,
        conversation=turn.conversation,
        call_key=key,
        call_id=edge.call_id,
        tool=edge.tool,
        revision=turn.revision,
        generation=edge.generation,
        attempt=attempt,
        arguments_digest=edge.arguments_digest,
        idempotency_key=call_idempotency_key(key),
        arguments_raw=arguments_of(turn, edge.call_id),
        schema_digest=edge.schema_digest,
        operation_id=turn.operation_id or "",
        deadline_ms=now_ms + tool.deadline_ms,
        side_effects=tool.side_effects,
        reply_to=reply_to,
    )


def own_result(turn: Turn, edge: ToolEdge, *, attempt: int, status: ResultStatus, reason: str, text: str) -> ToolResult:
    """A result the ledger gives itself: a denial, a missed deadline, a cancel."""
    key = call_key(turn.tenant, turn.conversation, turn.revision, edge.call_id)
    return ToolResult(
        tenant=turn.tenant,
        conversation=turn.conversation,
        call_key=key,
        call_id=edge.call_id,
        tool=edge.tool,
        revision=turn.revision,
        generation=edge.generation,
        attempt=attempt,
        arguments_digest=edge.arguments_digest,
        idempotency_key=call_idempotency_key(key),
        result_id=f"{reason}-{call_idempotency_key(key)[:16]}",
        status=status,
        reason=reason,
        content=text,
    )


def stored_result(call: CallView, turn: Turn, edge: ToolEdge) -> ToolResult:
    """The result of a settled call; after a reconcile it is rebuilt from the session event that told of it."""
    assert call.state == CallState.SETTLED, "asked only when every call is settled"
    record = decode_any(call.result, ("ToolResult.v1", "SessionEvent.v1"))
    if isinstance(record, ToolResult):
        return record
    assert isinstance(record, SessionEvent)
    rebuilt = own_result(
        turn,
        edge,
        attempt=call.attempt,
        status=record.result_status or "error",
        reason="adopted",
        text=record.text or "",
    )
    return rebuilt.model_copy(update={"result_id": record.result_id, "reason": record.reason})


class LedgerRecords:
    """Outputs of one conversation. `at_ms` is the time of the record that caused them."""

    def __init__(self, tenant: str, conversation: str, at_ms: int) -> None:
        self._tenant = tenant
        self._conversation = conversation
        self._at_ms = at_ms

    def event(self, name: str, identity: tuple[str | int, ...], **fields: object) -> Output:
        """One session event."""
        ident = event_id("ledger", self._tenant, self._conversation, name, *identity)
        event = SessionEvent.model_validate(
            {
                "tenant": self._tenant,
                "conversation": self._conversation,
                "type": name,
                "event_id": ident,
                "at_ms": self._at_ms,
                **fields,
            }
        )
        return output(
            "session-events", event, tenant=self._tenant, conversation=self._conversation, event_id=ident, role=ROLE
        )

    def order(self, order: ToolOrder) -> Output:
        return output(
            "tool-calls", order, tenant=self._tenant, conversation=self._conversation, role=ROLE,
            event_id=event_id("order", order.call_key, order.attempt),
        )  # fmt: skip

    def cancel_order(self, order: ToolOrder, reason: str) -> Output:
        """Tells executors that an order need not be executed any more."""
        cancel = ToolCancel(
            tenant=order.tenant,
            conversation=order.conversation,
            call_key=order.call_key,
            call_id=order.call_id,
            tool=order.tool,
            revision=order.revision,
            generation=order.generation,
            attempt=order.attempt,
            arguments_digest=order.arguments_digest,
            idempotency_key=order.idempotency_key,
            reason=reason,
        )
        return output(
            "tool-calls", cancel, tenant=self._tenant, conversation=self._conversation, role=ROLE,
            event_id=event_id("cancel", order.call_key, order.attempt),
        )  # fmt: skip

    def settled(self, result: ToolResult) -> Output:
        return self.event(
            "tool_call_output", (result.call_key,),
            call_key=result.call_key, call_id=result.call_id, tool=result.tool, revision=result.revision,
            generation=result.generation, result_status=result.status, result_id=result.result_id, text=result.content,
            reason=result.reason,
        )  # fmt: skip

    def ask(self, key: str, edge: ToolEdge, revision: int) -> Output:
        return self.event(
            "approval_requested", (key,), call_key=key, call_id=edge.call_id, tool=edge.tool, revision=revision
        )

    def decision(self, key: str, edge: ToolEdge, revision: int, decision: str) -> Output:
        return self.event(
            "approval_decision", (key,),
            call_key=key, call_id=edge.call_id, tool=edge.tool, revision=revision, decision=decision,
        )  # fmt: skip

    def turn(self, turn: Turn) -> list[Output]:
        """The tool turn and the event that tells of it."""
        committed = self.event(
            "turn_committed", (turn.revision,), revision=turn.revision, kind="tool", turn_digest=turn_digest(turn)
        )
        record = output(
            "turns", turn, tenant=self._tenant, conversation=self._conversation, role=ROLE,
            event_id=event_id("turns", self._tenant, self._conversation, turn.revision),
        )  # fmt: skip
        return [record, committed]

    def next_request(self, turn: Turn) -> Output | None:
        """The automatic request for the turn after a tool turn; None where it is not wanted or no turns are left."""
        options = turn.options
        if options is None or not options.auto_continue or options.max_turns <= 1:
            return None
        request = TurnRequest(
            tenant=self._tenant,
            conversation=self._conversation,
            request_id=f"auto/{turn.revision}",
            options=options.model_copy(update={"max_turns": options.max_turns - 1}),
        )
        return output(
            "turn-requests", request, tenant=self._tenant, conversation=self._conversation, role=ROLE,
            event_id=event_id("auto", self._tenant, self._conversation, turn.revision),
        )  # fmt: skip

    def length_notice(self, turn: Turn) -> Output:
        return self.event("length_notice", (turn.revision,), revision=turn.revision)
