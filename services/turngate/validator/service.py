"""The validator: candidate check, render for admission, READY / WAITING / REJECTED / PAUSED (DESIGN §3, §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.domain.adapters.registry import Adapter, AdapterError, adapter_for_api
from turngate.domain.sequence import (
    CommittedHistory,
    build_input_turn,
    build_sequence,
    candidate_findings,
    check_sequence,
)
from turngate.runtime.clock import Clock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import by_conversation, decoded, event_id, output, source_of
from turngate.runtime.records import InputRecord, Output, StepResult
from turngate.runtime.redis.owed import pack, unpack
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.base import Record
from turngate.schemas.codec import encode, encode_model
from turngate.schemas.control import VALIDATOR_COMMANDS, Control
from turngate.schemas.digests import operation_id, record_digest, text_digest
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import Refused
from turngate.schemas.findings import Finding
from turngate.schemas.requests import TurnRequest
from turngate.schemas.sequence import MessageSequence, OperationSpec, SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.tools import Toolset
from turngate.schemas.turn import Turn, turn_digest
from turngate.schemas.verdict import Verdict
from turngate.validator.history import HistoryCache
from turngate.validator.store import ConversationState, ValidatorStore

ROLE = "validator"
POLICY_DIGEST = record_digest({"policy": "default", "version": 1})
HELD_AGAIN_MS = 2_000
"""How soon a request is looked at again when what it waits for has no event of its own (an unknown toolset)."""
HELD_AGAIN_MAX_MS = 30_000
"""How late at most, since each look in vain doubles the delay. A `resume` by control looks at once."""
CAS_TRIES_MAX = 16


@dataclass(frozen=True, slots=True)
class ValidatorDeps:
    """What a validator partition needs of the process."""

    scripts: Scripts
    toolsets: Toolsets
    endpoints: Mapping[str, Endpoint]
    tenants: frozenset[str]
    clock: Clock
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class _Answer:
    """A decided verdict before it is stored. `delay_ms` is None where an event ends the wait."""

    verdict: str
    reason: str
    findings: tuple[Finding, ...] = ()
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """What READY commits."""

    turn: Turn | None
    history: CommittedHistory
    sequence: MessageSequence


class ValidatorHandler:
    """One partition of the validator."""

    def __init__(self, deps: ValidatorDeps) -> None:
        self._deps = deps
        self._store = ValidatorStore(deps.scripts, 0)
        self._histories = HistoryCache()

    async def start(self, start: PartitionStart) -> None:
        self._store = ValidatorStore(self._deps.scripts, start.term)

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        return StepResult(outputs=await by_conversation(records, self._handle))

    async def stop(self) -> None:
        return None

    async def _handle(self, record: InputRecord) -> list[Output]:
        if record.topic == "control":
            return await self._control(record)
        request = decoded(TurnRequest, record)
        self._check_address(record, request.tenant, request.conversation)
        return await self._request(record, request)

    def _check_address(self, record: InputRecord, tenant: str, conversation: str) -> None:
        if record.key != conversation_key(tenant, conversation):
            raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
        if "*" not in self._deps.tenants and tenant not in self._deps.tenants:
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")

    # --- turn requests -------------------------------------------------------------------------------------------

    async def _request(self, record: InputRecord, request: TurnRequest) -> list[Output]:
        key = conversation_key(request.tenant, request.conversation)
        source = source_of(record)
        for _ in range(CAS_TRIES_MAX):
            state, history = await self._load(key, request)
            if state.answer is not None:
                if state.answer.content not in ("", _content(request)):
                    raise Poison(record, "request_id_reused", "this request id was used for other content")
                same_record = state.answer.source == source
                if same_record or not state.answer.holds():
                    return _again(state.answer.records, same_record)
            decided = await self._decide(history, state, request)
            if isinstance(decided, _Ready):
                outputs = await self._commit(key, state, request, decided, source)
            else:
                outputs = await self._hold(key, state, request, decided, source)
            if outputs is not None:
                return outputs
        raise Refused("the conversation's head kept moving", code="contention")

    async def _load(self, key: bytes, request: TurnRequest) -> tuple[ConversationState, CommittedHistory]:
        while True:
            first = self._histories.first_missing(key)
            state = await self._store.load(key, request.request_id, first)
            if first > state.revision + 1:
                self._histories.forget(key)
                continue
            history = self._histories.extend(key, request.tenant, request.conversation, state)
            if history is not None:
                return state, history

    async def _decide(
        self, history: CommittedHistory, state: ConversationState, request: TurnRequest
    ) -> _Answer | _Ready:
        if state.paused:
            return _Answer("PAUSED", state.paused)
        if state.open_operation:
            return _Answer("WAITING", "operation_open")
        if state.calls_revision:
            return _Answer("WAITING", "calls_open")
        endpoint = self._deps.endpoints.get(request.options.endpoint)
        if endpoint is None:
            return _Answer("PAUSED", "unknown_endpoint", delay_ms=HELD_AGAIN_MS)
        toolset: Toolset | None = None
        if request.options.toolset_digest is not None:
            toolset = await self._deps.toolsets.get(request.options.toolset_digest)
            if toolset is None or toolset.tenant != request.tenant:
                return _Answer("WAITING", "unknown_toolset", delay_ms=HELD_AGAIN_MS)
        return _candidate(history, request, adapter_for_api(endpoint.profile), toolset)

    async def _commit(
        self, key: bytes, state: ConversationState, request: TurnRequest, ready: _Ready, source: str
    ) -> list[Output] | None:
        base = ready.history.head_revision
        spec = OperationSpec(
            operation_id=operation_id(request.tenant, request.conversation, base, request.request_id),
            request_id=request.request_id,
            tenant=request.tenant,
            conversation=request.conversation,
            base_revision=base,
            cancel_generation=state.cancel_generation,
            sequence_digest=ready.sequence.sequence_digest,
            options=request.options,
        )
        command = SequenceCommand(spec=spec, expected_generation=0, sequence=ready.sequence)
        outputs = self._ready_outputs(request, ready, spec, command)
        turn_bytes = encode(ready.turn) if ready.turn is not None else b""
        reply = await self._store.ready(
            key, request.request_id, request.cause_id or "", state.revision, state.cancel_generation,
            spec.operation_id, base, turn_bytes, ready.history.history_digest,
            encode_model(spec), encode(command), pack(outputs), source, _content(request),
        )  # fmt: skip
        if reply[0] == b"ok":
            return outputs
        if reply[0] == b"stored":
            return _again(reply[1], reply[2] == b"1")
        return None

    def _ready_outputs(
        self, request: TurnRequest, ready: _Ready, spec: OperationSpec, command: SequenceCommand
    ) -> list[Output]:
        now = self._deps.clock.wall_ms()
        outputs: list[Output] = []

        def add(topic: str, record: Record, *parts: str | int) -> None:
            outputs.append(
                output(
                    topic, record, tenant=request.tenant, conversation=request.conversation,
                    event_id=event_id(topic, spec.operation_id, *parts), role=ROLE, time_ms=now,
                )
            )  # fmt: skip

        if ready.turn is not None:
            digest = turn_digest(ready.turn)
            add("turns", ready.turn)
            prompt = SessionEvent(
                tenant=request.tenant,
                conversation=request.conversation,
                type="prompt",
                event_id=event_id("prompt", spec.operation_id),
                at_ms=now,
                revision=ready.turn.revision,
                kind="input",
                turn_digest=digest,
                trace_only=True,
            )
            add("session-events", prompt)
        add("sequences", command, 0)
        verdict = Verdict(
            tenant=request.tenant,
            conversation=request.conversation,
            request_id=request.request_id,
            verdict="READY",
            base_revision=spec.base_revision,
            operation_id=spec.operation_id,
            sequence_digest=spec.sequence_digest,
        )
        add("verdicts", verdict)
        return outputs

    async def _hold(
        self, key: bytes, state: ConversationState, request: TurnRequest, answer: _Answer, source: str
    ) -> list[Output] | None:
        now = self._deps.clock.wall_ms()
        held = answer.verdict != "REJECTED"
        verdict = Verdict.model_validate(
            {
                "tenant": request.tenant,
                "conversation": request.conversation,
                "request_id": request.request_id,
                "verdict": answer.verdict,
                "findings": answer.findings,
                "reason": answer.reason or None,
                "base_revision": state.revision,
                "request": request if held else None,
            }
        )
        outputs = [
            output(
                "verdicts", verdict, tenant=request.tenant, conversation=request.conversation, role=ROLE, time_ms=now,
                event_id=event_id("verdict", request.tenant, request.conversation, request.request_id,
                                  request.cause_id or ""),
            )
        ]  # fmt: skip
        reply = await self._store.hold(
            key, request.request_id, request.cause_id or "", state.revision, state.cancel_generation,
            answer.verdict, answer.reason, encode(request) if held else b"", pack(outputs),
            "" if answer.delay_ms is None else answer.delay_ms, source, _content(request), HELD_AGAIN_MAX_MS,
        )  # fmt: skip
        if reply[0] == b"same":
            return []
        if reply[0] == b"ok":
            for finding in answer.findings:
                if finding.severity == "error":
                    self._deps.metrics.sequence_rejections.labels(code=finding.code).inc()
            return outputs
        if reply[0] == b"stored":
            return _again(reply[1], reply[2] == b"1")
        return None

    # --- control -------------------------------------------------------------------------------------------------

    async def _control(self, record: InputRecord) -> list[Output]:
        control = decoded(Control, record)
        if control.command not in VALIDATOR_COMMANDS:
            return []
        self._check_address(record, control.tenant, control.conversation)
        if control.command not in ("pause", "resume"):
            raise Poison(record, "unsupported_command", f"this version has no command {control.command}")
        reason = (control.reason or "paused") if control.command == "pause" else ""
        key = conversation_key(control.tenant, control.conversation)
        await self._store.pause(key, control.control_id, reason, b"")
        return []


def _candidate(
    history: CommittedHistory, request: TurnRequest, adapter: Adapter, toolset: Toolset | None
) -> _Answer | _Ready:
    """The pure part: candidate rules, the sequence from committed turns, its rules, the adapter's admission."""
    candidate = candidate_findings(history, request)
    if candidate.verdict == "WAITING":
        return _Answer("WAITING", "calls_open", candidate.findings)
    if candidate.verdict == "REJECTED":
        return _Answer("REJECTED", "", candidate.findings)
    turn: Turn | None = None
    after = history
    if request.blocks or request.withdraws is not None:
        turn = build_input_turn(history, request, history.head_revision + 1)
        after = CommittedHistory(tenant=history.tenant, conversation=history.conversation, turns=(*history.turns, turn))
    try:
        sequence = build_sequence(after, options=request.options, adapter=adapter, policy_digest=POLICY_DIGEST)
        findings = (*check_sequence(sequence), *adapter.admission(sequence, toolset))
        if not _blocking(findings):
            adapter.render(sequence, toolset)
    except (AdapterError, Refused) as error:
        return _Answer("PAUSED", error.code, delay_ms=HELD_AGAIN_MS)
    if _blocking(findings):
        return _Answer("REJECTED", "", findings)
    return _Ready(turn=turn, history=after, sequence=sequence)


def _content(request: TurnRequest) -> str:
    """Digest of what is asked. The cause and the revision it is based on change when a held request comes back."""
    return text_digest(encode(request.model_copy(update={"cause_id": None, "base_revision": None})).decode())


def _blocking(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _again(stored: bytes, same_record: bool) -> list[Output]:
    """A stored answer published again: whole where the very same record came again (its transaction may have been
    aborted), otherwise the verdict alone, since everything else has been published once."""
    outputs = unpack(stored)
    return outputs if same_record else [out for out in outputs if out.topic == "verdicts"]
