"""Dead letters: why a record was given up, and the record that says so."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.runtime.errors import Poison
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.codec import encode
from turngate.schemas.digests import parts_digest
from turngate.schemas.envelope import cloud_event_headers
from turngate.schemas.errors import TurngateError
from turngate.schemas.quarantine import DeadLetter, Origin, payload_of

REASON_HEADER = "turngate_reason"
ORIGIN_HEADER = "turngate_origin"
TOPIC = "dead-letters"
DETAIL_CHARS_MAX = 500
KEY_BYTES_MAX = 512
"""What is kept of a key: nobody but the broker limits how long a foreign one is."""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that goes to the dead letters. detail never holds content."""

    record: InputRecord
    reason: str
    detail: str


def origin_of(record: InputRecord) -> str:
    """`topic/partition@offset`, with the logical topic name."""
    return f"{record.topic}/{record.partition}@{record.offset}"


def dead_record(record: InputRecord, error: Exception) -> DeadRecord:
    """Why `record` is given up. Only our own errors have texts that are known to be free of content."""
    if isinstance(error, Poison):
        return DeadRecord(record, error.reason_code, error.detail)
    if isinstance(error, TurngateError):
        return DeadRecord(record, error.code, str(error))
    return DeadRecord(record, "handler_error", type(error).__name__)


def dead_letter(dead: DeadRecord, role: str) -> Output:
    """The dead letter of a reader, with a deterministic id: written twice, it is the same one.

    Several roles may give up the same record, each for its own reason: `role` and the id tell their letters apart.
    """
    record = dead.record
    key = None if record.key is None else record.key[:KEY_BYTES_MAX]
    letter = DeadLetter(
        reason=dead.reason,
        detail=dead.detail[:DETAIL_CHARS_MAX],
        role=role,
        origin=Origin(topic=record.topic, partition=record.partition, offset=record.offset),
        key=None if key is None else key.decode("utf-8", "backslashreplace"),
        payload=payload_of(record.value),
    )
    headers = cloud_event_headers(
        letter, event_id=parts_digest(role, record.topic, record.partition, record.offset)[:32], source=role
    )
    return Output(
        topic=TOPIC,
        key=key or b"",
        value=encode(letter),
        headers=(
            *headers,
            (REASON_HEADER, dead.reason.encode()),
            (ORIGIN_HEADER, origin_of(record).encode()),
        ),
    )
