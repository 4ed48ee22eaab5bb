"""The audit over a simulated log: the same proof as on a cluster."""

from __future__ import annotations

from turngate.domain.audit import AuditLog, AuditReport, audit, entry_of
from turngate.domain.audit.log import Entry
from turngate.testing.memory_log import MemoryLog


def audit_memory(log: MemoryLog) -> AuditReport:
    """Audits a run that has settled; without a receive log, so I1, I4 and I9 are by the sender's word."""
    return audit(AuditLog.of(_entries(log, committed=True), _entries(log, committed=False)), None, expect_settled=True)


def _entries(log: MemoryLog, *, committed: bool) -> list[Entry]:
    return [
        entry_of(record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value)
        for topic in log.topics
        for record in log.all(topic, committed=committed)
    ]
