"""What happened in a conversation, as rows for people."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.domain.audit.index import conversation_of, operation_of
from turngate.domain.audit.log import AuditLog, ReceiveLine
from turngate.domain.audit.report import TimelineRow, entry_row, line_row
from turngate.schemas.session import SessionEvent

# In one millisecond: cause before effect, by the topic.
_FLOW = (
    "turn-requests", "verdicts", "sequences", "manifests", "dispatches", "receive-log", "stream-events",
    "session-events", "turns", "tool-calls", "tool-results", "control", "quarantine", "dead-letters",
)  # fmt: skip


def timeline(
    log: AuditLog,
    conversation: tuple[str, str],
    receive_log: Sequence[ReceiveLine] = (),
    *,
    partials: bool = False,
) -> tuple[TimelineRow, ...]:
    """All records about (tenant, conversation) in order of time, the trace's copies left out.

    receive_log: lines that name an operation of the conversation are woven in. partials: with preview deltas.
    """
    rows: list[TimelineRow] = []
    operations: set[str] = set()
    for entry in log.entries():
        record = entry.record
        about = None if record is None else conversation_of(record)
        if about is None and entry.key == "/".join(conversation):
            about = conversation  # quarantine names the key alone
        if about != conversation or record is None or entry.topic == "trace":
            continue
        operation = operation_of(record)
        if operation is not None:
            operations.add(operation)
        if partials or not (isinstance(record, SessionEvent) and record.type.startswith("partial_")):
            rows.append(entry_row(entry))
    rows += [line_row(line) for line in receive_log if line.operation in operations]
    rank = {topic: place for place, topic in enumerate(_FLOW)}
    return tuple(sorted(rows, key=lambda row: (row.time_ms, rank.get(row.topic, 99), row.partition, row.offset)))
