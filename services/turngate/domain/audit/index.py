"""The log, arranged by what the checks ask for: conversations, operations, attempts and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turngate.domain.audit.log import AuditLog, Entry, Place, ReceiveLine
from turngate.schemas.base import Record
from turngate.schemas.control import Control
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.quarantine import DeadLetter, Origin, Quarantined
from turngate.schemas.requests import TurnRequest
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.shadow import RolloutDiff
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, FrameBase, ResolveFrame
from turngate.schemas.tools import ToolOrder, ToolResult
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict

Conversation = tuple[str, str]
"""Tenant, conversation."""
Attempt = tuple[str, int]
"""operationId, attempt generation."""
Request = tuple[str, str, str]
"""Tenant, conversation, requestId."""


def conversation_of(record: Record) -> Conversation | None:
    """The conversation a record is about, where it says so."""
    if isinstance(record, SequenceCommand):
        return (record.spec.tenant, record.spec.conversation)
    tenant: object = getattr(record, "tenant", None)
    conversation: object = getattr(record, "conversation", None)
    return (tenant, conversation) if isinstance(tenant, str) and isinstance(conversation, str) else None


def operation_of(record: Record) -> str | None:
    """The operation a record is about, where it says so."""
    if isinstance(record, SequenceCommand):
        return record.spec.operation_id
    operation: object = getattr(record, "operation_id", None)
    return operation if isinstance(operation, str) else None


def short_topic(full: str) -> str:
    """The short name of a full topic name: `turngate.stream-events.v1` -> `stream-events`."""
    parts = full.rsplit(".", 2)
    return parts[1] if len(parts) == 3 else full


def place_of(origin: Origin) -> Place:
    return (short_topic(origin.topic), origin.partition, origin.offset)


INPUTS = frozenset({"turn-requests", "tool-results", "control", "legacy-requests", "stream-events", "toolsets"})
"""Topics that others write too: what is wrong there must be found again in quarantine or dead letters."""

STRAY_REASONS = frozenset(
    {
        "null_key", "undecodable_key", "invalid_key", "key_mismatch", "misrouted", "unknown_tenant",
        "oversized_record", "unknown_operation", "sequence_mismatch",
    }
)  # fmt: skip
"""Reasons of dead letters for records that the fleet's own writers cannot have made: they belong to nothing."""


@dataclass(slots=True)
class Index:
    """Built once for an audit and never changed afterwards. Lists are in offset order of their partition."""

    log: AuditLog
    lines: tuple[ReceiveLine, ...] | None
    settled: bool
    turns: dict[Conversation, dict[int, list[tuple[Entry, Turn]]]] = field(default_factory=dict)
    commits: dict[str, list[tuple[Entry, Turn]]] = field(default_factory=dict)
    requests: dict[Request, list[tuple[Entry, TurnRequest]]] = field(default_factory=dict)
    verdicts: dict[Request, list[tuple[Entry, Verdict]]] = field(default_factory=dict)
    ready: dict[str, list[tuple[Entry, Verdict]]] = field(default_factory=dict)
    sequences: dict[str, list[tuple[Entry, SequenceCommand]]] = field(default_factory=dict)
    manifests: dict[str, list[tuple[Entry, DispatchManifest]]] = field(default_factory=dict)
    dispatches: dict[str, list[tuple[Entry, Dispatch]]] = field(default_factory=dict)
    session: dict[Conversation, list[tuple[Entry, SessionEvent]]] = field(default_factory=dict)
    ends: dict[Attempt, list[tuple[Entry, SessionEvent]]] = field(default_factory=dict)
    retractions: dict[Attempt, list[tuple[Entry, SessionEvent]]] = field(default_factory=dict)
    frames: dict[Attempt, list[tuple[Entry, FrameBase]]] = field(default_factory=dict)
    orders: dict[str, list[tuple[Entry, ToolOrder]]] = field(default_factory=dict)
    results: dict[str, list[tuple[Entry, ToolResult]]] = field(default_factory=dict)
    outputs: dict[str, list[tuple[Entry, SessionEvent]]] = field(default_factory=dict)
    denied: dict[str, list[tuple[Entry, SessionEvent]]] = field(default_factory=dict)
    quarantined: dict[Place, list[tuple[Entry, Quarantined]]] = field(default_factory=dict)
    dead: dict[Place, list[tuple[Entry, DeadLetter]]] = field(default_factory=dict)
    shadowed: set[Request] = field(default_factory=set)
    cancels: dict[Conversation, list[Control]] = field(default_factory=dict)
    by_key: dict[str, Attempt] = field(default_factory=dict)
    by_digest: dict[str, Attempt] = field(default_factory=dict)
    partitions: dict[Conversation, int] = field(default_factory=dict)
    by_operation: dict[str, list[Entry]] = field(default_factory=dict)

    def cut(self, topic: str, conversation: Conversation | None) -> bool:
        """Whether records of this conversation on the topic may have gone by retention."""
        return self.log.cut(topic, None if conversation is None else self.partitions.get(conversation))

    def dispatched(self, attempt: Attempt) -> list[tuple[Entry, Dispatch]]:
        return [pair for pair in self.dispatches.get(attempt[0], ()) if pair[1].generation == attempt[1]]

    def about(self, operation: str | None, limit: int = 40) -> tuple[Entry, ...]:
        """What a counter-example about an operation shows: its first `limit` records, without partials."""
        if operation is None:
            return ()
        return tuple(self.by_operation.get(operation, ())[:limit])


def index_of(log: AuditLog, lines: Sequence[ReceiveLine] | None, *, settled: bool = False) -> Index:
    """The index of a log. Entries that are no records are left out; check_accounts deals with them.

    So are the records in topics of the fleet's own that were given up as strays: somebody else wrote them there, and a
    dead letter shows each. settled: the run is over, so nothing may still be on its way.
    """
    index = Index(log, None if lines is None else tuple(lines), settled)
    _kept(index)
    log = index.log = log.without(_strays(index))
    for entry in log.entries():
        if entry.record is None:
            continue
        conversation = conversation_of(entry.record)
        if conversation is not None and entry.topic not in ("toolsets", "dead-letters"):
            index.partitions.setdefault(conversation, entry.partition)
        operation = operation_of(entry.record)
        if operation is not None and not _partial(entry.record):
            index.by_operation.setdefault(operation, []).append(entry)
    _requests(index)
    _sending(index)
    _session(index)
    _tools(index)
    return index


def _strays(index: Index) -> frozenset[Place]:
    """Places of strays, and of their twins on a wrong partition, from where they were moved to where they are dead."""
    dead = {
        place
        for place, letters in index.dead.items()
        if place[0] not in INPUTS and any(letter.reason in STRAY_REASONS for _, letter in letters)
    }
    topics = {topic for topic, _, _ in dead}
    entries = [entry for entry in index.log.entries() if entry.topic in topics]
    twins = {entry.body for entry in entries if entry.place in dead}
    return frozenset(entry.place for entry in entries if entry.body in twins)


def _partial(record: Record) -> bool:
    return isinstance(record, EventsFrame) or (isinstance(record, SessionEvent) and record.type.startswith("partial_"))


def _requests(index: Index) -> None:
    for entry, request in index.log.read("turn-requests", TurnRequest):
        key = (request.tenant, request.conversation, request.request_id)
        index.requests.setdefault(key, []).append((entry, request))
    for entry, verdict in index.log.read("verdicts", Verdict):
        key = (verdict.tenant, verdict.conversation, verdict.request_id)
        index.verdicts.setdefault(key, []).append((entry, verdict))
        if verdict.verdict == "READY" and verdict.operation_id is not None:
            index.ready.setdefault(verdict.operation_id, []).append((entry, verdict))
    for _, diff in index.log.read("rollout-diffs", RolloutDiff):
        index.shadowed.add((diff.tenant, diff.conversation, diff.request_id))
    for _, control in index.log.read("control", Control):
        if control.command in ("cancel", "interrupt"):
            index.cancels.setdefault((control.tenant, control.conversation), []).append(control)


def _sending(index: Index) -> None:
    for entry, command in index.log.read("sequences", SequenceCommand):
        index.sequences.setdefault(command.spec.operation_id, []).append((entry, command))
    for entry, manifest in index.log.read("manifests", DispatchManifest):
        index.manifests.setdefault(manifest.operation_id, []).append((entry, manifest))
    for entry, dispatch in index.log.read("dispatches", Dispatch):
        index.dispatches.setdefault(dispatch.operation_id, []).append((entry, dispatch))
        attempt = (dispatch.operation_id, dispatch.generation)
        index.by_key.setdefault(dispatch.idempotency_key, attempt)
        index.by_digest.setdefault(dispatch.request_digest, attempt)
    for kind in (BeginFrame, EventsFrame, EndFrame, ResolveFrame):
        for entry, frame in index.log.read("stream-events", kind, uncommitted=True):
            index.frames.setdefault((frame.operation_id, frame.generation), []).append((entry, frame))
    for frames in index.frames.values():
        frames.sort(key=lambda pair: (pair[0].partition, pair[0].offset))


def _session(index: Index) -> None:
    for entry, turn in index.log.read("turns", Turn):
        revisions = index.turns.setdefault((turn.tenant, turn.conversation), {})
        revisions.setdefault(turn.revision, []).append((entry, turn))
        if turn.kind == "assistant" and turn.operation_id is not None:
            index.commits.setdefault(turn.operation_id, []).append((entry, turn))
    for entry, event in index.log.read("session-events", SessionEvent):
        if event.origin:
            continue  # a child conversation's event, forwarded: it is judged where it was made
        index.session.setdefault((event.tenant, event.conversation), []).append((entry, event))
        if event.operation_id is not None and event.generation is not None:
            attempt = (event.operation_id, event.generation)
            if event.type == "request_end":
                index.ends.setdefault(attempt, []).append((entry, event))
            elif event.type == "preview_retracted":
                index.retractions.setdefault(attempt, []).append((entry, event))
        if event.call_key is not None and event.type == "tool_call_output":
            index.outputs.setdefault(event.call_key, []).append((entry, event))
        if event.call_key is not None and event.type == "approval_decision" and event.decision == "denied":
            index.denied.setdefault(event.call_key, []).append((entry, event))


def _tools(index: Index) -> None:
    for entry, order in index.log.read("tool-calls", ToolOrder):
        index.orders.setdefault(order.call_key, []).append((entry, order))
    for entry, result in index.log.read("tool-results", ToolResult):
        index.results.setdefault(result.call_key, []).append((entry, result))


def _kept(index: Index) -> None:
    for entry, kept in index.log.read("quarantine", Quarantined):
        index.quarantined.setdefault(place_of(kept.origin), []).append((entry, kept))
    for entry, letter in index.log.read("dead-letters", DeadLetter):
        index.dead.setdefault(place_of(letter.origin), []).append((entry, letter))
