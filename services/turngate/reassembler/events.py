"""The session events of an attempt, from request_begin to request_end: deterministic ids, ordinals, order (§9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turngate.domain.stream import Block, Preview
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import Output
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.session import PARTIALS, SessionEvent
from turngate.schemas.turn import Turn

ROLE = "reassembler"
THINKING = frozenset({"thinking", "reasoning"})
PREVIEW_HEADER = "turngate_preview"
"""Marks revocable events, so that a reader who wants complete ones only skips them unparsed."""
TEXT = frozenset({"text", "refusal"})


class AttemptEvents:
    """Writes the session events of one attempt generation. `at_ms` is the time of the frame that caused an event."""

    def __init__(self, spec: OperationSpec, generation: int) -> None:
        self._spec = spec
        self._generation = generation

    def _event(self, name: str, at_ms: int, identity: tuple[str | int, ...], **fields: object) -> Output:
        spec = self._spec
        ident = event_id("session", spec.operation_id, self._generation, name, *identity)
        event = SessionEvent.model_validate(
            {
                "tenant": spec.tenant,
                "conversation": spec.conversation,
                "type": name,
                "event_id": ident,
                "at_ms": at_ms,
                "operation_id": spec.operation_id,
                "generation": self._generation,
                **fields,
            }
        )
        return output(
            "session-events",
            event,
            tenant=spec.tenant,
            conversation=spec.conversation,
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
        step = {"started": "start", "delta": "delta", "stopped": "stop"}[preview.phase]
        identity = (relay, preview.block_index, step, preview.text_offset, preview.byte_count)
        common: dict[str, object] = {"relay": relay, "block_index": preview.block_index, "step": step}
        if preview.kind == "tool_call":
            return self._event(
                "partial_tool_call", at_ms, identity, **common,
                call_id=preview.call_id, tool=preview.name, byte_count=preview.byte_count,
            )  # fmt: skip
        name = "partial_thinking" if preview.kind in THINKING else "partial_text"
        if step == "delta":
            common |= {"text": preview.text, "text_offset": preview.text_offset}
        return self._event(name, at_ms, identity, **common)

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
