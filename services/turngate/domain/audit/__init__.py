"""The black-box checker: records in, proofs and counter-examples out. Knows nothing but the schemas."""

from turngate.domain.audit.dump import parse_entry, parse_receive_line, print_entry
from turngate.domain.audit.log import AuditLog, Entry, ReceiveLine, entry_of
from turngate.domain.audit.report import (
    AuditReport,
    Breach,
    InvariantResult,
    Status,
    TimelineRow,
)
from turngate.domain.audit.run import audit
from turngate.domain.audit.timeline import timeline

__all__ = [
    "AuditLog",
    "AuditReport",
    "Breach",
    "Entry",
    "InvariantResult",
    "ReceiveLine",
    "Status",
    "TimelineRow",
    "audit",
    "entry_of",
    "parse_entry",
    "parse_receive_line",
    "print_entry",
    "timeline",
]
