"""The session events of an attempt, from request_begin to request_end: deterministic ids, ordinals, order (§9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turngate.domain.stream import Block, Preview
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import Output
from turngate.schemas.codec import flat_bytes
from turngate.schemas.envelope import cloud_event_headers, conversation_key
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.session import PARTIALS, SessionEvent
from turngate.schemas.turn import Turn

ROLE = "reassembler"
THINKING = frozenset({"thinking", "reasoning"})
PREVIEW_HEADER = "turngate_preview"
"""Marks revocable events, so that a reader who wants complete ones only skips them unparsed."""
TEXT = frozenset({"text", "refusal"})
STEPS = {"started": "start", "delta": "delta", "stopped": "stop"}
IDENTIFIER_LENGTH_MAX = 256
PARTIAL_HEADERS = (
    *(pair for pair in cloud_event_headers(SessionEvent, event_id="", source=ROLE) if pair[0] != "ce_id"),
    (PREVIEW_HEADER, b"1"),
)
"""Of every partial, beside its id."""


class AttemptEvents:
    """Writes the session events of one attempt generation. `at_ms` is the time of the frame that caused an event."""

    __slots__ = ("_conversation", "_generation", "_key", "_operation", "_tenant")

    def __init__(self, spec: OperationSpec, generation: int) -> None:
        self._tenant = spec.tenant
        self._conversation = spec.conversation
        self._operation = spec.operation_id
        self._key = conversation_key(spec.tenant, spec.conversation)
        self._generation = generation

    def _event(self, name: str, at_ms: int, identity: tuple[str | int, ...], **fields: object) -> Output:
        ident = event_id("session", self._operation, self._generation, name, *identity)
        event = SessionEvent.model_validate(
            {
                "tenant": self._tenant,
                "conversation": self._conversation,
                "type": name,
                "event_id": ident,
                "at_ms": at_ms,
                "operation_id": self._operation,
                "generation": self._generation,
                **fields,
            }
        )
        return output(
            "session-events",
            event,
            tenant=self._tenant,
            conversation=self._conversation,
            event_id=ident,
            role=ROLE,
            headers=((PREVIEW_HEADER, b"1"),) if name in PARTIALS else (),
        )

    def begin(self, at_ms: int) -> Output:
        return self._event("request_begin", at_ms, (), ordinal=0)

    def previews(self, previews: Iterable[Preview], relay: int, at_ms: int) -> list[Output]:
        """Partials; of a tool call only its name and a byte count, never an argument byte."""
        return [self._partial(preview, relay, at_ms) for preview in previews]

    def _partial(self, preview: Preview, relay: int, at_ms: int) -> Output:
        """One partial, most of what is written: a SessionEvent by its wire names, without building the model."""
        step = STEPS[preview.phase]
        event: dict[str, str | int] = {
            "schema": "SessionEvent.v1", "tenant": self._tenant, "conversation": self._conversation, "atMs": at_ms,
            "operationId": self._operation, "generation": self._generation, "relay": relay,
            "blockIndex": preview.block_index, "step": step,
        }  # fmt: skip
        if preview.kind == "tool_call":
            name = "partial_tool_call"
            event["byteCount"] = preview.byte_count
            for field, value in (("callId", preview.call_id), ("tool", preview.name)):
                # A provider may send any text here; what is no identifier is left to the gate.
                if value and len(value) <= IDENTIFIER_LENGTH_MAX:
                    event[field] = value
        else:
            name = "partial_thinking" if preview.kind in THINKING else "partial_text"
            if step == "delta":
                event["text"] = preview.text
                event["textOffset"] = preview.text_offset
        event["type"] = name
        # With its length: after a take-over a text may be cut into deltas at other places.
        extent = (preview.text_offset, len(preview.text), preview.byte_count)
        ident = event_id("session", self._operation, self._generation, name, relay, preview.block_index, step, *extent)
        event["eventId"] = ident
        return Output("session-events", self._key, flat_bytes(event), (("ce_id", ident.encode()), *PARTIAL_HEADERS))

    def complete(
        self, blocks: Sequence[Block], call_ids: Sequence[str], usage_raw: str | None, relay: int, at_ms: int
    ) -> list[Output]:
        """Every block as a complete message, then token_usage, then request_end(completed)."""
        outputs: list[Output] = []
        ordinal = 1
        calls = iter(call_ids)
        for block in blocks:
            if block.kind == "tool_call":
                call_id = next(calls)
                outputs.append(
                    self._event(
                        "partial_tool_call", at_ms, (relay, block.index, "stop"),
                        relay=relay, block_index=block.index, step="stop", call_id=call_id, tool=block.name,
                    )
                )  # fmt: skip
                outputs.append(
                    self._event(
                        "tool_call", at_ms, (block.index,), ordinal=ordinal, block_index=block.index,
                        call_id=call_id, tool=block.name, arguments_raw=block.arguments_raw or "{}",
                    )
                )  # fmt: skip
            elif block.kind in TEXT or block.kind in THINKING:
                name = "thinking" if block.kind in THINKING else "text"
                outputs.append(
                    self._event(name, at_ms, (block.index,), ordinal=ordinal, block_index=block.index, text=block.text)
                )
            else:
                continue
            ordinal += 1
        if usage_raw is not None:
            outputs.append(self._event("token_usage", at_ms, (), ordinal=ordinal, usage_raw=usage_raw))
            ordinal += 1
        outputs.append(self._event("request_end", at_ms, (), ordinal=ordinal, status="completed"))
        return outputs

    def committed(self, turn: Turn, turn_digest: str, at_ms: int) -> Output:
        return self._event(
            "turn_committed", at_ms, (turn.revision,), revision=turn.revision, kind="assistant", turn_digest=turn_digest
        )

    def retracted(self, reason: str, at_ms: int, relay: int | None = None) -> Output:
        """All of the generation, or one relay of it, is void."""
        return self._event("preview_retracted", at_ms, (relay or 0,), reason=reason, relay=relay)

    def ended(self, status: str, reason: str | None, retry_in_ms: int | None, at_ms: int) -> Output:
        return self._event("request_end", at_ms, (), ordinal=1, status=status, reason=reason, retry_in_ms=retry_in_ms)

    def aborted(self, control_id: str, at_ms: int) -> Output:
        return self._event("abort", at_ms, (control_id,), control_id=control_id)

    def turn(self, turn: Turn) -> Output:
        """The canonical turn itself."""
        return output(
            "turns", turn, tenant=turn.tenant, conversation=turn.conversation, role=ROLE,
            event_id=event_id("turns", turn.tenant, turn.conversation, turn.revision),
        )  # fmt: skip
