"""The end of an attempt: the gate's outcome, the decision, the one script that makes it true, the records owed."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.domain.dispatch.retry import RetryPolicy
from turngate.domain.sequence import AssistantBlock, build_assistant_turn
from turngate.domain.stream import Assembler, Block, Outcome, StreamEnd, compile_toolset
from turngate.reassembler.events import AttemptEvents
from turngate.reassembler.frames import AttemptRef
from turngate.reassembler.outcomes import Decision, decide, generation_notes
from turngate.reassembler.quarantine import FrameQuarantine
from turngate.reassembler.store import AttemptView, ReassemblerStore
from turngate.reassembler.streams import OpenStream, assembler_for
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import source_of
from turngate.runtime.records import InputRecord, Output
from turngate.runtime.redis.owed import pack, unpack
from turngate.schemas.codec import decode, decode_model, encode
from turngate.schemas.digests import text_digest
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import Refused
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.stream import EndFrame, ResolveFrame
from turngate.schemas.turn import Turn, turn_digest

TRIES_MAX = 8


class OwnerLives(Exception):
    """The frame says that the owner is gone, and the lease has been renewed since: it changes nothing."""


class Conclusions:
    """Concludes attempts of one partition."""

    def __init__(
        self, store: ReassemblerStore, quarantine: FrameQuarantine, policy: RetryPolicy, metrics: Metrics
    ) -> None:
        self._store = store
        self._quarantine = quarantine
        self._policy = policy
        self._metrics = metrics

    async def repeat(self, record: InputRecord, frame: EndFrame | ResolveFrame) -> list[Output]:
        """A frame of an attempt that is decided: the stored records where this very frame decided it.

        For a cancelled operation its evidence releases the conversation.
        """
        reply = await self._store.end(
            conversation_key(frame.tenant, frame.conversation), frame.operation_id, frame.generation, frame.relay,
            "UNKNOWN", frame.evidence or "", "", b"", "", source_of(record), "", "", "",
        )  # fmt: skip
        return unpack(reply[2]) if reply[0] == b"stored" else []

    async def conclude(
        self,
        record: InputRecord,
        frame: EndFrame | ResolveFrame,
        stream: OpenStream | None,
    ) -> list[Output]:
        """The outcome of an attempt at its `end` or `resolve`; nothing where it stays UNKNOWN. Raises OwnerLives."""
        key = conversation_key(frame.tenant, frame.conversation)
        outcome: Outcome | None = None
        for _ in range(TRIES_MAX):
            view = await self._store.view(frame.operation_id, key)
            if outcome is None:
                outcome = _outcome(frame, stream, view)
            decision = decide(frame, outcome, view, self._policy, frame.operation_id)
            if decision.state == "COMMITTED":
                assert stream is not None, "only a stream that was fed can have a terminal"
                outputs = await self._commit(record, frame, stream, view, outcome)
            else:
                outputs = await self._terminate(record, frame, stream, view, outcome, decision)
            if outputs is not None:
                return outputs
        raise Refused("the attempt's state kept changing", code="contention")

    async def _commit(
        self,
        record: InputRecord,
        frame: EndFrame | ResolveFrame,
        stream: OpenStream,
        view: AttemptView,
        outcome: Outcome,
    ) -> list[Output] | None:
        if not view.state:
            return self._refused(record, frame, "unknown_operation")
        # Both are fixed with the operation; the script compares the digest of the manifest the stream began with.
        spec = decode_model(OperationSpec, view.spec)
        turn = _turn(stream, spec, view, outcome)
        digest = turn_digest(turn)
        at_ms = record.timestamp_ms
        call_ids = [block.call_id or "" for block in turn.blocks if block.kind == "tool_call"]
        outputs = stream.events.complete(outcome.blocks, call_ids, outcome.usage_raw, stream.relay, at_ms)
        outputs.append(stream.events.turn(turn))
        outputs.append(stream.events.committed(turn, digest, at_ms))
        reply = await self._store.commit(
            stream.key, frame.operation_id, frame.generation, frame.relay, stream.manifest_digest,
            spec.base_revision, spec.cancel_generation, turn.revision, encode(turn), turn.history_digest,
            "1" if turn.tool_edges else "", pack(outputs), f"{frame.generation}:completed", source_of(record),
        )  # fmt: skip
        if reply[0] == b"ok":
            return outputs
        if reply[0] == b"stored":
            return unpack(reply[2])
        reason = reply[1].decode()
        if reason == "cancelled":
            return None
        return self._refused(record, frame, reason)

    def _refused(self, record: InputRecord, frame: EndFrame | ResolveFrame, reason: str) -> list[Output]:
        self._metrics.canonical_conflicts.labels(reason=reason).inc()
        return self._quarantine.put(record, _ref(frame), reason)

    async def _terminate(
        self,
        record: InputRecord,
        frame: EndFrame | ResolveFrame,
        stream: OpenStream | None,
        view: AttemptView,
        outcome: Outcome,
        decision: Decision,
    ) -> list[Output] | None:
        began = stream is not None or view.began == frame.generation
        outputs: list[Output] = []
        if decision.state != "UNKNOWN":
            outputs = self._ending(record, frame, view, decision, began=began)
            if outcome.verdict == "blocked" and stream is not None:
                for offset, value in stream.kept:
                    kept = InputRecord(record.topic, record.partition, offset, record.timestamp_ms, stream.key, value)
                    outputs += self._quarantine.put(kept, _ref(frame), decision.reason)
        owner_gone = isinstance(frame, EndFrame) and frame.cause == "ownerGone"
        reply = await self._store.end(
            record.key or b"", frame.operation_id, frame.generation, frame.relay, decision.state, decision.evidence,
            "" if decision.retry_in_ms is None else decision.retry_in_ms, pack(outputs),
            f"{frame.generation}:{decision.status}", source_of(record), "1" if owner_gone else "", "1" if began else "",
            "1" if view.cancelled else "",
        )  # fmt: skip
        word = reply[0]
        if word == b"changed":
            return None
        if word == b"stored":
            return unpack(reply[2])
        if word == b"ok" and decision.state != "UNKNOWN":
            self._metrics.preview_retractions.labels(reason=decision.reason).inc()
            return outputs
        if word == b"late" and reply[1] == b"lease_renewed":
            raise OwnerLives
        if word == b"late" and reply[1] != b"decided":
            return self._quarantine.put(record, _ref(frame), reply[1].decode())
        return []

    def _ending(
        self,
        record: InputRecord,
        frame: EndFrame | ResolveFrame,
        view: AttemptView,
        decision: Decision,
        *,
        began: bool,
    ) -> list[Output]:
        """preview_retracted, request_end, and abort where a cancel asked for it; nothing retried is ever silent."""
        events = AttemptEvents(decode_model(OperationSpec, view.spec), frame.generation)
        at_ms = record.timestamp_ms
        outputs: list[Output] = []
        if began:
            outputs.append(events.retracted(decision.reason, at_ms))
        if began or decision.state != "TERMINATED":
            outputs.append(events.ended(decision.status, decision.reason, decision.retry_in_ms, at_ms))
        if isinstance(frame, EndFrame) and frame.control_id is not None:
            outputs.append(events.aborted(frame.control_id, at_ms))
        return outputs


def _ref(frame: EndFrame | ResolveFrame) -> AttemptRef:
    return AttemptRef(frame.operation_id, frame.generation, frame.relay)


def _outcome(frame: EndFrame | ResolveFrame, stream: OpenStream | None, view: AttemptView) -> Outcome:
    """What the gate says; an attempt without a stream here (never begun, or dropped as UNKNOWN) saw no event."""
    assembler = stream.assembler if stream is not None else _blank(view)
    closed = frame.evidence is not None or bool(view.evidence)
    if isinstance(frame, ResolveFrame):
        return assembler.end(StreamEnd("ownerGone", evidence_closed=closed))
    return assembler.end(
        StreamEnd(
            frame.cause,
            status=frame.status,
            error_class=frame.error_class,
            retry_after_ms=frame.retry_after_ms,
            # Without a stream nothing was fed here, so a count can only say that events are missing.
            count=frame.count if stream is not None else None,
            evidence_closed=closed,
        )
    )


def _blank(view: AttemptView) -> Assembler:
    return assembler_for(decode(DispatchManifest, view.manifest), compile_toolset({}), None)


def _turn(stream: OpenStream, spec: OperationSpec, view: AttemptView, outcome: Outcome) -> Turn:
    tools = stream.tools.tools if stream.tools is not None else ()
    schemas = {tool.name: text_digest(tool.input_schema) for tool in tools}
    blocks = _without_client_calls(outcome.blocks) if outcome.continues else outcome.blocks
    return build_assistant_turn(
        view.head_digest,
        spec=spec,
        manifest=decode(DispatchManifest, view.manifest),
        revision=spec.base_revision + 1,
        generation=stream.generation,
        relay=stream.relay,
        blocks=[_assistant_block(block, schemas) for block in blocks],
        stop=outcome.stop,
        continues=True if outcome.continues else None,
        usage_raw=outcome.usage_raw,
        generations=generation_notes(view.notes, stream.generation),
        handle=outcome.handle,
        events=outcome.event_count,
        deltas=outcome.delta_count,
        terminal=outcome.stop_value,
    )


def _without_client_calls(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if block.kind != "tool_call"]


def _assistant_block(block: Block, schemas: dict[str, str]) -> AssistantBlock:
    if block.kind == "tool_call":
        return AssistantBlock(
            kind="tool_call",
            call_id=block.call_id,
            tool=block.name,
            arguments_raw=block.arguments_raw or "{}",
            signature=block.signature,
            schema_digest=schemas.get(block.name or ""),
        )
    opaque = block.data
    if opaque is None and (block.citations or block.parts):
        opaque = "[" + ",".join((*block.citations, *block.parts)) + "]"
    return AssistantBlock(
        kind=block.kind,
        text=block.text if block.text or opaque is None else None,
        data=opaque,
        signature=block.signature,
    )
