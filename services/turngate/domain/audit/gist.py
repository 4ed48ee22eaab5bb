"""One line about a record for people: ids, digests and counts, never content."""

from __future__ import annotations

from collections.abc import Callable

from turngate.domain.audit.log import Entry, ReceiveLine
from turngate.schemas.base import Record
from turngate.schemas.control import Control
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.quarantine import DeadLetter, Origin, Quarantined
from turngate.schemas.requests import TurnRequest
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, ResolveFrame
from turngate.schemas.tools import CallIdentity, ToolProgress, ToolResult
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict


def short(digest: str | None) -> str:
    """The first digits of a digest or operation id: enough to compare by eye."""
    return "-" if digest is None else digest[:11] if digest.startswith("op-") else digest[:8]


def gist(entry: Entry) -> str:
    """The one line about an entry."""
    if entry.record is None:
        return f"no record of ours ({entry.problem})"
    for kind, describe in _GISTS:
        if isinstance(entry.record, kind):
            return describe(entry.record)
    return entry.record.SCHEMA


def line_gist(line: ReceiveLine) -> str:
    """The one line about a received request."""
    return (
        f"{line.method} at {line.endpoint}: {short(line.operation)} generation {line.generation},"
        f" {line.length} bytes, request {short(line.request_digest)}"
    )


def _attempt(operation: str | None, generation: int | None, relay: int | None = None) -> str:
    text = f"{short(operation)} generation {generation}"
    return text if relay is None else f"{text} relay {relay}"


def _turn_request(record: Record) -> str:
    assert isinstance(record, TurnRequest)
    back = f" (back as {record.cause_id})" if record.cause_id else ""
    return f"request {record.request_id}{back}, {len(record.blocks)} new blocks"


def _verdict(record: Record) -> str:
    assert isinstance(record, Verdict)
    codes = " ".join(finding.code for finding in record.findings)
    return (
        f"{record.verdict} for {record.request_id} on revision {record.base_revision}:"
        f" {short(record.operation_id)} {record.reason or ''} {codes}".rstrip()
    )


def _sequence(record: Record) -> str:
    assert isinstance(record, SequenceCommand)
    return (
        f"{record.mode} {short(record.spec.operation_id)} expecting generation {record.expected_generation},"
        f" {len(record.sequence.blocks)} blocks, sequence {short(record.spec.sequence_digest)}"
    )


def _manifest(record: Record) -> str:
    assert isinstance(record, DispatchManifest)
    return (
        f"{short(record.operation_id)}: manifest {short(record.manifest_digest)},"
        f" request {short(record.request_digest)}, {record.request_bytes} bytes"
    )


def _dispatch(record: Record) -> str:
    assert isinstance(record, Dispatch)
    return (
        f"{record.mode} {_attempt(record.operation_id, record.generation, record.relay)} to {record.endpoint}"
        f" by {record.owner}, request {short(record.request_digest)}"
    )


def _begin(record: Record) -> str:
    assert isinstance(record, BeginFrame)
    return f"begin {_attempt(record.operation_id, record.generation, record.relay)}"


def _events(record: Record) -> str:
    assert isinstance(record, EventsFrame)
    last = record.first_seq + len(record.events) - 1
    return f"events {record.first_seq}-{last} {_attempt(record.operation_id, record.generation, record.relay)}"


def _end(record: Record) -> str:
    assert isinstance(record, EndFrame)
    status = "" if record.status is None else f" {record.status}"
    evidence = f", evidence {record.evidence}" if record.evidence else ""
    attempt = _attempt(record.operation_id, record.generation, record.relay)
    return f"end {record.cause}{status} {attempt}{evidence}"


def _resolve(record: Record) -> str:
    assert isinstance(record, ResolveFrame)
    return f"resolve {_attempt(record.operation_id, record.generation)}, evidence {record.evidence}"


def _turn(record: Record) -> str:
    assert isinstance(record, Turn)
    calls = f", {len(record.tool_edges)} tool edges" if record.tool_edges else ""
    by = f" by {_attempt(record.operation_id, record.generation)}" if record.operation_id else f" by {record.cause_id}"
    return f"revision {record.revision} {record.kind}{by}, {len(record.blocks)} blocks{calls}"


_SESSION_FIELDS = (
    "kind", "revision", "block_index", "step", "text_offset", "byte_count", "call_id", "tool", "status",
    "result_status", "decision", "reason", "retry_in_ms",
)  # fmt: skip


def _session(record: Record) -> str:
    assert isinstance(record, SessionEvent)
    parts: list[str] = [record.type]
    if record.operation_id is not None:
        parts.append(_attempt(record.operation_id, record.generation, record.relay))
    for name in _SESSION_FIELDS:
        value: object = getattr(record, name)
        if value is not None:
            parts.append(f"{name}={value}")
    if record.text is not None:
        parts.append(f"({len(record.text)} characters)")
    return " ".join(parts)


def _call(record: Record) -> str:
    assert isinstance(record, CallIdentity)
    tail = ""
    if isinstance(record, ToolResult):
        tail = f": {record.status} as {record.result_id}"
    elif isinstance(record, ToolProgress):
        tail = f": {record.progress} {record.seq}"
    return f"{record.SCHEMA} {record.call_key} ({record.tool}) attempt {record.attempt}{tail}"


def _origin(origin: Origin) -> str:
    return f"{origin.topic} {origin.partition}:{origin.offset}"


def _quarantined(record: Record) -> str:
    assert isinstance(record, Quarantined)
    what = record.call_key or _attempt(record.operation_id, record.generation, record.relay)
    return f"{record.reason}: {what}, from {_origin(record.origin)}"


def _dead(record: Record) -> str:
    assert isinstance(record, DeadLetter)
    return f"{record.reason} by {record.role}, from {_origin(record.origin)}"


def _control(record: Record) -> str:
    assert isinstance(record, Control)
    return f"{record.command} {record.control_id} {record.call_key or short(record.operation_id)}"


_GISTS: tuple[tuple[type[Record], Callable[[Record], str]], ...] = (
    (TurnRequest, _turn_request),
    (Verdict, _verdict),
    (SequenceCommand, _sequence),
    (DispatchManifest, _manifest),
    (Dispatch, _dispatch),
    (BeginFrame, _begin),
    (EventsFrame, _events),
    (EndFrame, _end),
    (ResolveFrame, _resolve),
    (Turn, _turn),
    (SessionEvent, _session),
    (CallIdentity, _call),
    (Quarantined, _quarantined),
    (DeadLetter, _dead),
    (Control, _control),
)
