"""A small, valid log of a fleet at work, built record by record, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from turngate.domain.audit import AuditLog, AuditReport, Entry, ReceiveLine, Status, audit, entry_of
from turngate.schemas.base import Record
from turngate.schemas.blocks import Block, BlockContent, ToolEdge, content_digest
from turngate.schemas.codec import encode
from turngate.schemas.digests import (
    EMPTY_HISTORY,
    history_digest,
    idempotency_key,
    operation_id,
    sha256_hex,
    text_digest,
)
from turngate.schemas.findings import Finding
from turngate.schemas.manifest import Dispatch, DispatchManifest, manifest_digest
from turngate.schemas.quarantine import Origin, Quarantined, payload_of
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.sequence import MessageSequence, OperationSpec, SequenceCommand, sequence_digest
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame
from turngate.schemas.tools import ReplyTo, ToolOrder, ToolResult
from turngate.schemas.turn import GenerationNote, Receipt, Turn, turn_digest
from turngate.schemas.verdict import Verdict

TENANT, CONVERSATION = "acme", "chat-1"
PARTITION = 3
ZERO = sha256_hex(b"policy")
SCHEMA = sha256_hex(b"schema")
OPTIONS = TurnOptions(endpoint="sim", model="m-1", max_output_tokens=100)
WHO = {"tenant": TENANT, "conversation": CONVERSATION}

Said = tuple[str, str]
"""("text", text) or (call id, exact arguments)."""


def block(
    revision: int, order: int, role: str, kind: str, suffix: str, content: BlockContent, call: str | None = None
) -> Block:
    trust = {"user": "user", "assistant": "model", "tool": "tool"}[role]
    return Block.model_validate(
        {
            "id": suffix, "role": role, "kind": kind, "turn": revision, "order": order, "trust": trust,
            "callId": call, "digest": content_digest(kind, content), "content": content,
        }
    )  # fmt: skip


@dataclass
class Story:
    """Records by topic in order of writing; `ghosts` are session events that only an uncommitted reader sees."""

    rows: list[tuple[str, int, Record]] = field(default_factory=list)
    ghosts: list[tuple[int, SessionEvent]] = field(default_factory=list)
    lines: list[ReceiveLine] | None = field(default_factory=list)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    now: int = 1_000_000
    turns: list[Turn] = field(default_factory=list)

    def add(self, topic: str, record: Record) -> None:
        self.now += 10
        self.rows.append((topic, self.now, record))

    def ghost(self, event: SessionEvent) -> None:
        """An event of a transaction that will be aborted, at this place of the stream."""
        self.ghosts.append((len(self.rows), event))

    def entries(self) -> list[Entry]:
        return [entry for entry, _ in self._placed() if entry is not None]

    def _placed(self) -> list[tuple[Entry | None, Entry | None]]:
        """(committed entry, uncommitted entry) in order; offsets are shared, as on a broker."""
        offsets: dict[str, int] = {}
        placed: list[tuple[Entry | None, Entry | None]] = []

        def at(topic: str, time_ms: int, record: Record) -> Entry:
            offset = offsets.get(topic, self.starts.get((topic, PARTITION), 0))
            offsets[topic] = offset + 1
            return entry_of(topic, PARTITION, offset, time_ms, f"{TENANT}/{CONVERSATION}", encode(record))

        for place, (topic, time_ms, record) in enumerate(self.rows):
            for _, event in (ghost for ghost in self.ghosts if ghost[0] == place):
                placed.append((None, at("session-events", time_ms, event)))
            entry = at(topic, time_ms, record)
            placed.append((entry, entry if topic in ("session-events", "stream-events") else None))
        return placed

    def log(self) -> AuditLog:
        placed = self._placed()
        return AuditLog.of(
            (entry for entry, _ in placed if entry is not None),
            (entry for _, entry in placed if entry is not None),
            self.starts,
        )

    def audit(self, *, expect_settled: bool = True) -> AuditReport:
        return audit(self.log(), self.lines, expect_settled=expect_settled)

    def offset_of(self, topic: str, record: Record) -> int:
        return next(e.offset for e in self.entries() if e.topic == topic and e.record == record)

    def find(self, kind: type[Record], **fields: object) -> int:
        """Index of the first row of a kind whose fields have these values."""
        for place, (_, _, record) in enumerate(self.rows):
            if isinstance(record, kind) and all(getattr(record, k) == v for k, v in fields.items()):
                return place
        raise AssertionError(f"no {kind.__name__} with {fields}")

    def change(self, place: int, **fields: object) -> Record:
        """Rewrite one record, validated anew."""
        topic, time_ms, record = self.rows[place]
        plain = record.model_dump(mode="python", by_alias=False, exclude_none=True) | fields
        if "schema_" in plain:
            plain.pop("schema_")
        spoiled = type(record).model_validate(plain)
        self.rows[place] = (topic, time_ms, spoiled)
        return spoiled

    def rewrite(self, revision: int, **fields: object) -> None:
        """Change a turn and make its receipt agree with itself again."""
        turn = self.change(self.find(Turn, revision=revision), **fields)
        if turn.receipt is not None:
            receipt = turn.receipt.model_copy(update={"turn_digest": turn_digest(turn)})
            self.change(self.find(Turn, revision=revision), receipt=receipt)

    def resequence(self, place: int, **fields: object) -> None:
        """Change a sequence and everything that names its digest, so that only the change itself is wrong."""
        _, _, command = self.rows[place]
        bare = MessageSequence.model_validate(command.sequence.model_dump(by_alias=False, exclude_none=True) | fields)
        digest = sequence_digest(bare)
        sequence = bare.model_copy(update={"sequence_digest": digest})
        spec = command.spec.model_copy(update={"sequence_digest": digest})
        self.change(place, sequence=sequence, spec=spec)
        self.change(self.find(Verdict, operation_id=spec.operation_id), sequence_digest=digest)

    def drop(self, place: int) -> None:
        """Take one record out."""
        del self.rows[place]
        self.ghosts = [(at - (at > place), event) for at, event in self.ghosts]

    def repeat(self, place: int, **fields: object) -> None:
        """Write one record again at the end, changed."""
        topic, _, _ = self.rows[place]
        self.add(topic, self.rows[place][2])
        if fields:
            self.change(len(self.rows) - 1, **fields)

    # -- what the roles write ------------------------------------------------------------------------------------

    def event(self, kind: str, /, **fields: object) -> SessionEvent:
        self.now += 1
        plain = {**WHO, "type": kind, "event_id": f"e{self.now}", **fields}
        return SessionEvent.model_validate(plain)

    def session(self, kind: str, /, **fields: object) -> None:
        self.add("session-events", self.event(kind, **fields))

    def _turn(self, kind: str, blocks: list[Block], edges: list[ToolEdge], cause: str, **fields: object) -> Turn:
        previous = self.turns[-1].history_digest if self.turns else EMPTY_HISTORY
        turn = Turn.model_validate(
            {
                **WHO, "revision": len(self.turns) + 1, "kind": kind, "blocks": tuple(blocks),
                "tool_edges": tuple(edges), "cause_id": cause,
                "history_digest": history_digest(previous, (one.digest for one in blocks)), **fields,
            }
        )  # fmt: skip
        self.turns.append(turn)
        return turn

    def ask(self, request: str, text: str | None) -> str:
        """A request answered READY, with its input turn and sequence; gives the operation id."""
        blocks = () if text is None else (NewBlock(role="user", content=BlockContent(text=text)),)
        self.add("turn-requests", TurnRequest(**WHO, request_id=request, blocks=blocks, options=OPTIONS))
        if text is not None:
            revision = len(self.turns) + 1
            new = block(revision, 0, "user", "text", f"u-{revision}", BlockContent(text=text))
            self.add("turns", self._turn("input", [new], [], request))
        base = len(self.turns)
        operation = operation_id(TENANT, CONVERSATION, base, request)
        bare = MessageSequence(
            **WHO, conversation_revision=base, blocks=tuple(b for turn in self.turns for b in turn.blocks),
            adapter="openai-chat@1", adapter_digest=ZERO, model_revision="m-1", max_output_tokens=100,
            policy_digest=ZERO, history_digest=self.turns[-1].history_digest, sequence_digest=ZERO,
        )  # fmt: skip
        sequence = bare.model_copy(update={"sequence_digest": sequence_digest(bare)})
        spec = OperationSpec(
            operation_id=operation, request_id=request, **WHO, base_revision=base, cancel_generation=0,
            sequence_digest=sequence.sequence_digest, options=OPTIONS,
        )  # fmt: skip
        self.add("verdicts", Verdict(
            **WHO, request_id=request, verdict="READY", base_revision=base, operation_id=operation,
            sequence_digest=sequence.sequence_digest,
        ))  # fmt: skip
        self.add("sequences", SequenceCommand(spec=spec, expected_generation=0, sequence=sequence))
        return operation

    def send(self, operation: str, generation: int = 1, *, arrives: bool = True) -> Dispatch:
        """Manifest, dispatch, the bytes at the provider and the begin of relay 1."""
        command = next(
            r for _, _, r in self.rows if isinstance(r, SequenceCommand) and r.spec.operation_id == operation
        )
        body = operation.encode()
        bare = DispatchManifest(
            operation_id=operation, **WHO, conversation_revision=command.spec.base_revision,
            sequence_digest=command.spec.sequence_digest, adapter="openai-chat@1", adapter_digest=ZERO,
            normaliser="openai@1", profile="openai", provider="sim", model="m-1", policy_digest=ZERO, path="/v1/c",
            request_digest=sha256_hex(b"request " + body), request_bytes=len(body), token_count=1,
            max_output_tokens=100, manifest_digest=ZERO, created_at_ms=self.now,
        )  # fmt: skip
        manifest = bare.model_copy(update={"manifest_digest": manifest_digest(bare)})
        if generation == 1:
            self.add("manifests", manifest)
        dispatch = Dispatch(
            operation_id=operation, **WHO, base_revision=command.spec.base_revision, generation=generation, relay=1,
            manifest_digest=manifest.manifest_digest, request_digest=manifest.request_digest,
            idempotency_key=idempotency_key(operation, generation), endpoint="sim", owner="d-0", boot=1,
            replid="r", at_ms=self.now,
        )  # fmt: skip
        self.add("dispatches", dispatch)
        if arrives and self.lines is not None:
            self.lines.append(ReceiveLine(
                number=len(self.lines) + 1, time_ms=self.now, endpoint="sim", method="POST", path="/v1/c",
                body_sha256=sha256_hex(body), request_digest=manifest.request_digest,
                idempotency_key=dispatch.idempotency_key, operation=operation, generation=generation, length=len(body),
            ))  # fmt: skip
        self.add("stream-events", BeginFrame(
            **self._attempt(operation, generation), profile="openai", normaliser="openai@1",
            manifest_digest=manifest.manifest_digest, owner="d-0", boot=1,
        ))  # fmt: skip
        self.session("request_begin", operation_id=operation, generation=generation, ordinal=0)
        return dispatch

    def _attempt(self, operation: str, generation: int) -> dict[str, object]:
        return {**WHO, "operation_id": operation, "generation": generation, "relay": 1}

    def frames(self, operation: str, generation: int, count: int) -> EventsFrame:
        frame = EventsFrame.model_validate(
            self._attempt(operation, generation)
            | {"profile": "openai", "first_seq": 0, "events": tuple("{}" for _ in range(count))}
        )
        self.add("stream-events", frame)
        return frame

    def preview(self, operation: str, generation: int, index: int, text: str, *, cuts: tuple[int, ...] = ()) -> None:
        """start, deltas cut at the given places, stop."""
        attempt = {"operation_id": operation, "generation": generation, "relay": 1, "block_index": index}
        self.session("partial_text", **attempt, step="start")
        for begin, end in pairwise([0, *cuts, len(text)]):
            self.session("partial_text", **attempt, step="delta", text=text[begin:end], text_offset=begin)
        self.session("partial_text", **attempt, step="stop")

    def fail(self, operation: str, generation: int, *, retry_in_ms: int | None = 2000, previewed: bool = True) -> None:
        attempt = self._attempt(operation, generation)
        self.add("stream-events", EndFrame.model_validate(
            attempt | {"cause": "http", "status": 503, "error_class": "overloaded", "evidence": "rejected", "count": 1}
        ))  # fmt: skip
        if previewed:
            self.session("preview_retracted", operation_id=operation, generation=generation, reason="failed")
        self.session(
            "request_end", operation_id=operation, generation=generation, status="failed", ordinal=1,
            **({} if retry_in_ms is None else {"retry_in_ms": retry_in_ms}),
        )  # fmt: skip
        self.now += retry_in_ms or 0

    def commit(
        self, operation: str, generation: int, said: list[Said], *, earlier: tuple[GenerationNote, ...] = ()
    ) -> Turn:
        """The complete events, the assistant turn and the outcome; counts 4 stream events."""
        self.frames(operation, generation, 4)
        self.add("stream-events", EndFrame.model_validate(
            self._attempt(operation, generation) | {"cause": "eof", "count": 4, "evidence": "terminal"}
        ))  # fmt: skip
        revision = len(self.turns) + 1
        names = {"operation_id": operation, "generation": generation}
        blocks: list[Block] = []
        edges: list[ToolEdge] = []
        for order, (kind, value) in enumerate(said):
            if kind == "text":
                content = BlockContent(text=value)
                blocks.append(block(revision, order, "assistant", "text", f"a-{revision}-{order}", content))
                self.session("text", **names, block_index=order, text=value, ordinal=order + 1)
                continue
            content = BlockContent(tool="search", arguments_raw=value)
            blocks.append(block(revision, order, "assistant", "tool_call", f"a-{revision}-{kind}", content, kind))
            edges.append(ToolEdge(
                call_id=kind, tool="search", schema_digest=SCHEMA, arguments_digest=text_digest(value),
                generation=generation,
            ))  # fmt: skip
            self.session(
                "tool_call", **names, block_index=order, call_id=kind, tool="search", arguments_raw=value,
                ordinal=order + 1,
            )  # fmt: skip
        self.session("token_usage", **names, usage_raw="{}", ordinal=len(said) + 1)
        manifest = next(r for _, _, r in self.rows if isinstance(r, DispatchManifest) and r.operation_id == operation)
        stop = "tool_calls" if edges else "complete"
        bare = self._turn("assistant", blocks, edges, operation, **names, stop=stop)
        receipt = Receipt(
            request_digest=manifest.request_digest, manifest_digest=manifest.manifest_digest,
            adapter=manifest.adapter, adapter_digest=ZERO, normaliser="openai@1", policy_digest=ZERO,
            generations=(*earlier, GenerationNote(generation=generation, status="completed")), relay=1,
            handle=f"{operation}/{generation}/1", events=4, deltas=2, terminal="stop", turn_digest=turn_digest(bare),
        )  # fmt: skip
        turn = self.turns[-1] = bare.model_copy(update={"receipt": receipt})
        self.add("turns", turn)
        self.session("turn_committed", revision=revision, kind="assistant", turn_digest=receipt.turn_digest)
        self.session("request_end", **names, status="completed", ordinal=len(said) + 2)
        return turn

    def order(self, turn: Turn, call: str) -> ToolOrder:
        edge = next(edge for edge in turn.tool_edges if edge.call_id == call)
        raw = next(one.content.arguments_raw for one in turn.blocks if one.call_id == call)
        order = ToolOrder(
            **WHO, call_key=f"{TENANT}/{CONVERSATION}/{turn.revision}/{call}", call_id=call, tool="search",
            revision=turn.revision, generation=edge.generation, attempt=1, arguments_digest=edge.arguments_digest,
            idempotency_key=f"key-{turn.revision}-{call}", arguments_raw=raw or "", schema_digest=SCHEMA,
            operation_id=turn.operation_id or "", deadline_ms=self.now + 60_000, side_effects="at_most_once",
            reply_to=ReplyTo(topic="turngate.tool-results.v1", partition=PARTITION),
        )  # fmt: skip
        self.add("tool-calls", order)
        return order

    def answer(self, order: ToolOrder, text: str, result: str | None = None) -> ToolResult:
        answer = ToolResult(
            **WHO, call_key=order.call_key, call_id=order.call_id, tool=order.tool, revision=order.revision,
            generation=order.generation, attempt=1, arguments_digest=order.arguments_digest,
            idempotency_key=order.idempotency_key, result_id=result or f"r-{order.call_id}",
            status="success", content=text,
        )  # fmt: skip
        self.add("tool-results", answer)
        return answer

    def settle(self, turn: Turn, results: list[ToolResult]) -> Turn:
        """The tool turn and one output for each call."""
        revision = len(self.turns) + 1
        blocks: list[Block] = []
        edges: list[ToolEdge] = []
        for order, result in enumerate(results):
            content = BlockContent(text=result.content, status=result.status)
            edge = next(edge for edge in turn.tool_edges if edge.call_id == result.call_id)
            blocks.append(
                block(revision, order, "tool", "tool_result", f"t-{turn.revision}-{order}", content, result.call_id)
            )
            edges.append(edge.model_copy(update={"result_id": result.result_id, "status": result.status}))
        tool_turn = self._turn("tool", blocks, edges, f"settled/{turn.revision}")
        self.add("turns", tool_turn)
        for result in results:
            self.session(
                "tool_call_output", call_key=result.call_key, call_id=result.call_id, revision=turn.revision,
                result_id=result.result_id, result_status=result.status, text=result.content,
            )  # fmt: skip
        return tool_turn

    def quarantine(self, topic: str, record: Record, reason: str = "late", **fields: object) -> None:
        origin = Origin(topic=f"turngate.{topic}.v1", partition=PARTITION, offset=self.offset_of(topic, record))
        self.add("quarantine", Quarantined.model_validate(
            {"reason": reason, "origin": origin, "payload": payload_of(encode(record)), **fields}
        ))  # fmt: skip

    def refuse(self, request: str, verdict: str, **fields: object) -> TurnRequest:
        """A request that is held or rejected."""
        wanted = TurnRequest(**WHO, request_id=request, options=OPTIONS)
        self.add("turn-requests", wanted)
        held = {} if verdict == "REJECTED" else {"request": wanted}
        findings = (Finding(code="empty_content", message="empty"),) if verdict == "REJECTED" else ()
        self.add("verdicts", Verdict.model_validate(
            {**WHO, "request_id": request, "verdict": verdict, "base_revision": len(self.turns), "findings": findings,
             **held, **fields}
        ))  # fmt: skip
        return wanted


def whole_story() -> Story:
    """Two operations: a retry, two parallel calls, a tool turn, an aborted transaction, a late frame, a late result."""
    story = Story()
    first = story.ask("req-1", "Find both things, please")
    story.send(first, 1)
    story.preview(first, 1, 0, "Let me th")
    story.fail(first, 1)
    story.send(first, 2)
    attempt = {"operation_id": first, "generation": 2, "relay": 1, "block_index": 0}
    story.ghost(story.event("partial_text", **attempt, step="start"))
    story.ghost(story.event("partial_text", **attempt, step="delta", text="I will lo", text_offset=0))
    story.preview(first, 2, 0, "I will look — 🔎 now", cuts=(6, 15, 16))
    said = [("text", "I will look — 🔎 now"), ("c1", '{"q": "one"}'), ("c2", '{"q":"two"}')]
    turn = story.commit(first, 2, said, earlier=(GenerationNote(generation=1, status="failed"),))
    late = story.frames(first, 1, 2)
    story.quarantine("stream-events", late, operation_id=first, generation=1, relay=1)
    story.refuse("req-early", "WAITING", reason="calls_open")
    one, two = story.order(turn, "c1"), story.order(turn, "c2")
    second = story.answer(two, "result two")
    results = [story.answer(one, "result one"), second]
    story.settle(turn, results)
    again = story.answer(two, "result two, again", "r-c2-late")
    story.quarantine("tool-results", again, call_key=again.call_key)
    last = story.ask("req-early", None)
    story.send(last)
    story.preview(last, 1, 0, "Both found.", cuts=(4,))
    story.commit(last, 1, [("text", "Both found.")])
    story.refuse("req-bad", "REJECTED")
    story.refuse("req-paused", "PAUSED", reason="paused")
    return story


@pytest.fixture(scope="session")
def whole() -> Callable[[], Story]:
    """Makes a fresh valid story."""
    return whole_story


@pytest.fixture
def story() -> Story:
    return whole_story()


@pytest.fixture(scope="session")
def blank() -> Callable[[], Story]:
    return Story


@pytest.fixture
def assert_refuted() -> Callable[[Story, str], None]:
    """The audit refutes an invariant, shows where, and quotes no content."""

    def check(story: Story, invariant: str) -> None:
        report = story.audit()
        result = report.of(invariant)
        assert result.status is Status.REFUTED, [(r.invariant, [b.why for b in r.breaches]) for r in report.results]
        assert report.exit_code == 1
        assert invariant in report.refuted
        first = result.breaches[0]
        assert first.why
        assert first.timeline
        assert list(first.timeline) == sorted(first.timeline, key=lambda row: row.time_ms)
        content = ("Let me th", "I will look", "result one", "result two", "Find both", "Both found", '"q"')
        assert not any(word in row.gist for row in first.timeline for word in content)

    return check
