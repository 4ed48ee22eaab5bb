"""The outcome of one relay, and the table that decides it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from turngate.domain.stream.findings import Finding, GateCode
from turngate.domain.stream.operations import BlockKind, StopClass

EndCause = Literal["eof", "reset", "timeout", "http", "cancelled", "handover", "notSent", "ownerGone"]
Verdict = Literal["commit", "blocked", "failed", "unknown", "waiting"]
Retry = Literal["none", "policy", "never", "ladder"]
"""none: no retry. policy: only where `retryBlocked` is on. never: same bytes, same answer."""
PreviewsOutcome = Literal["committed", "retracted", "held"]
RequestEnd = Literal["completed", "failed", "timeout", "malformed", "aborted"]


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How the relay ended.

    status, error_class, retry_after_ms: of cause http; error_class is the provider table's word (`auth`,
    `invalid_request`, `ambiguous`, anything else means rejected); without it the status alone decides. Of cause
    reset: why the bytes could not be read on (READING_FAULTS).
    count: events relayed, None where the owner is gone.
    evidence_closed: the connection is known closed where that proves the attempt can produce nothing more.
    """

    cause: EndCause
    status: int | None = None
    error_class: str | None = None
    retry_after_ms: int | None = None
    count: int | None = None
    evidence_closed: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the turn, in order.

    text: text, thinking, reasoning and refusal text, as received. slot: `choice/index` at the provider.
    data: the provider's own block, its exact JSON text, a call's with its streamed input in place.
    signature: of thinking. citations, parts: exact JSON texts, in order of arrival.
    call_id, name: of calls. arguments_raw: the exact argument text of a call ("" stays "").
    arguments, schema_digest: of a client call that passed.
    """

    index: int
    kind: BlockKind
    slot: str
    text: str = ""
    data: str | None = None
    signature: str | None = None
    citations: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    call_id: str | None = None
    name: str | None = None
    arguments_raw: str | None = None
    arguments: Mapping[str, object] | None = None
    schema_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one relay.

    blocks: of a committed turn, in order; empty otherwise. calls: the client tool calls among them.
    text, reasoning: what was assembled, also where nothing is committed: never history unless verdict is
    commit.
    stop_value: the provider's own word. usage: the provider's own object; usage_raw: its exact JSON text (of
    an object
    merged from several events: its compact form). continues: a paused turn that the next operation goes on
    with.
    request_end: None while nothing final may be said. retry_after_ms: what the provider asked to wait, of
    http.
    """

    verdict: Verdict
    stop: StopClass
    stop_value: str | None
    blocks: tuple[Block, ...]
    calls: tuple[Block, ...]
    findings: tuple[Finding, ...]
    text: str
    reasoning: str
    usage: Mapping[str, object] | None
    usage_raw: str | None
    handle: str | None
    event_count: int
    delta_count: int
    duplicate_count: int
    terminal_seen: bool
    previews: PreviewsOutcome
    request_end: RequestEnd | None
    retry: Retry
    continues: bool
    retry_after_ms: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the outcome table."""

    verdict: Verdict
    previews: PreviewsOutcome
    request_end: RequestEnd | None
    retry: Retry


RowName = Literal[
    "commit", "structural", "content", "never", "provider_error", "provider_refused", "rejected", "refused",
    "closed", "closed_timeout", "unknown", "cancelled", "waiting",
]  # fmt: skip

OUTCOMES: Mapping[RowName, Row] = {
    "commit": Row("commit", "committed", "completed", "none"),
    "structural": Row("blocked", "retracted", "malformed", "none"),
    "content": Row("blocked", "retracted", "malformed", "policy"),
    "never": Row("blocked", "retracted", "malformed", "never"),
    "provider_error": Row("failed", "retracted", "failed", "ladder"),
    "provider_refused": Row("failed", "retracted", "failed", "never"),
    "rejected": Row("failed", "retracted", "failed", "ladder"),
    "refused": Row("failed", "retracted", "failed", "never"),
    "closed": Row("failed", "retracted", "failed", "ladder"),
    "closed_timeout": Row("failed", "retracted", "timeout", "ladder"),
    "unknown": Row("unknown", "held", None, "none"),
    "cancelled": Row("failed", "retracted", "aborted", "never"),
    "waiting": Row("waiting", "held", None, "none"),
}

BLOCKING_ROWS: Mapping[GateCode, RowName] = {
    "identity_collision": "structural",
    "missing_slot": "structural",
    "missing_identity": "structural",
    "missing_terminal": "structural",
    "duplicate_terminal": "structural",
    "delta_after_terminal": "structural",
    "duplicate_call_id": "structural",
    "multiple_choices": "structural",
    "unknown_event": "structural",
    "missing_events": "structural",
    "unsupported_schema": "never",
    "too_large": "never",
    "malformed_json": "content",
    "trailing_json": "content",
    "duplicate_key": "content",
    "non_finite_number": "content",
    "invalid_unicode": "content",
    "non_object_arguments": "content",
    "unknown_tool": "content",
    "schema_invalid": "content",
    "wrong_terminal_reason": "content",
    "provider_error": "provider_error",
}
"""Which row an `error` finding leads to once the turn has its terminal. Where the provider said what its error is, the
class of that decides before this table; a stop class `error` alone says no more than that it failed."""

BLOCKING_ORDER: tuple[RowName, ...] = ("provider_error", "structural", "never", "content")
"""Of several findings the provider's own error decides, then the row that forbids most."""

READING_FAULTS: Mapping[str, GateCode] = {
    "bad_checksum": "missing_events",
    "bad_frame": "missing_events",
    "cut_frame": "missing_terminal",
    "event_too_large": "too_large",
    "invalid_unicode": "invalid_unicode",
}
"""Why a reader gave up on the bytes of a stream -> the finding. What it could not read may have been an error, so the
turn does not pass, whatever was read before."""

AMBIGUOUS_STATUS: frozenset[int] = frozenset({408, 499, *(s for s in range(500, 600) if s not in (503, 529))})
"""HTTP answers that prove nothing about the generation."""

AUTH_STATUS: frozenset[int] = frozenset({401, 403})
INVALID_STATUS: frozenset[int] = frozenset({400, 402, 404, 405, 413, 414, 415, 422})


def http_row(end: StreamEnd) -> RowName | None:
    """The row of a non-2xx answer, or None where it proves nothing."""
    word = end.error_class
    if word in ("auth", "invalid_request"):
        return "refused"
    if word is not None:
        return None if word in ("ambiguous", "unknown") else "rejected"
    status = end.status
    if status is None or status < 400 or status in AMBIGUOUS_STATUS:
        return None
    return "refused" if status in AUTH_STATUS or status in INVALID_STATUS else "rejected"
