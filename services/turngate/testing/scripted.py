"""Scripted ends of a simulated fleet: a provider that answers relays with frames, an executor that answers orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turngate.dispatcher.relays import Ended, Relay
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.envelope import attempt_headers
from turngate.schemas.registry import decode_any
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, Evidence
from turngate.schemas.tools import ToolOrder, ToolResult
from turngate.testing.memory_log import MemoryLog

ENDED_PROPERLY = Ended("eof")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider does with one relay.

    events: raw event texts. ended: how the relay ends; None leaves it open (the owner died: recovery must act).
    evidence: what the owner's `end` claims. frame_events: events a frame.
    """

    events: tuple[str, ...] = ()
    ended: Ended | None = ENDED_PROPERLY
    evidence: Evidence | None = None
    frame_events: int = 2


@dataclass(slots=True)
class ScriptedRelays:
    """Stands where `Relays` stands: writes a relay's frames to the log at once. `sent` is the receive log."""

    log: MemoryLog
    answer: Callable[[Relay], Answer]
    sent: list[Relay] = field(default_factory=list[Relay])

    def start(self, relays: Sequence[Relay]) -> None:
        for relay in relays:
            self.sent.append(relay)
            for frame in frames(relay, self.answer(relay)):
                self.log.append(frame)


def frames(relay: Relay, answer: Answer) -> list[Output]:
    """The frames of one relay, as a dispatcher would write them."""
    address = {
        "tenant": relay.tenant,
        "conversation": relay.conversation,
        "operation_id": relay.operation_id,
        "generation": relay.generation,
        "relay": relay.relay,
    }
    begin = BeginFrame.model_validate(
        {
            **address,
            "profile": relay.profile,
            "normaliser": relay.normaliser,
            "manifest_digest": relay.manifest_digest,
            "owner": "scripted",
            "boot": 1,
        }
    )
    bodies: list[BeginFrame | EventsFrame | EndFrame] = [begin]
    for first in range(0, len(answer.events), answer.frame_events):
        chunk = answer.events[first : first + answer.frame_events]
        bodies.append(
            EventsFrame.model_validate({**address, "profile": relay.profile, "first_seq": first, "events": chunk})
        )
    if answer.ended is not None:
        bodies.append(
            EndFrame.model_validate(
                {
                    **address,
                    "cause": answer.ended.cause,
                    "count": len(answer.events),
                    "status": answer.ended.status,
                    "error_class": answer.ended.error_class,
                    "retry_after_ms": answer.ended.retry_after_ms,
                    "evidence": answer.evidence,
                }
            )
        )
    return [
        output(
            "stream-events", body, tenant=relay.tenant, conversation=relay.conversation, role="dispatcher",
            event_id=event_id("scripted", relay.operation_id, relay.generation, relay.relay, index),
            headers=attempt_headers(relay.operation_id, relay.generation, relay.relay),
        )
        for index, body in enumerate(bodies)
    ]  # fmt: skip


def result_of(order: ToolOrder, content: str) -> Output:
    """A successful result, on the partition the order names."""
    result = ToolResult(
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
        result_id=f"r-{order.idempotency_key[:16]}-{order.attempt}",
        status="success",
        content=content,
    )
    return output(
        "tool-results", result, tenant=order.tenant, conversation=order.conversation, role="executor",
        event_id=result.result_id, partition=order.reply_to.partition,
    )  # fmt: skip


def orders(records: Sequence[InputRecord]) -> list[ToolOrder]:
    """The orders among records of tool-calls."""
    found = [decode_any(record.value, ("ToolOrder.v1", "ToolCancel.v1")) for record in records]
    return [order for order in found if isinstance(order, ToolOrder)]
