"""Errors of the worker runtime, all below `turngate.schemas.errors.TurngateError`.

TurngateError
 |-- ConfigurationError
 |    `-- MissingOffset    a group has no committed offset on an input: the role stops
 |-- Retryable             back off, same batch again, never a dead letter
 |    |-- SendFailed       the broker did not take a record of the side producer; nothing was dropped
 |    `-- BrokerNotReady   the broker did not answer a question; asked again
 |-- Poison                this record goes to the dead letters
 |    `-- OversizedOutput  a step made a record beyond its topic's limit
 `-- LostFence             another process owns the partition: drop its state, rejoin
"""

from __future__ import annotations

from turngate.runtime.records import InputRecord
from turngate.schemas.errors import ConfigurationError, LostFence, Retryable
from turngate.schemas.errors import Poison as PoisonBase

__all__ = [
    "BrokerNotReady",
    "LostFence",
    "MissingOffset",
    "OversizedOutput",
    "Poison",
    "Retryable",
    "SendFailed",
]


class Poison(PoisonBase):
    """`record` can never be processed. `reason_code` is stable and snake_case; `detail` never holds content."""

    def __init__(self, record: InputRecord, reason_code: str, detail: str = "") -> None:
        super().__init__(
            f"{record.topic}/{record.partition}@{record.offset}: {reason_code}" + (f" ({detail})" if detail else ""),
            code=reason_code,
        )
        self.record = record
        self.reason_code = reason_code
        self.detail = detail


class OversizedOutput(PoisonBase):
    """A step made a record larger than its topic takes; the record that caused it is poison."""

    code = "oversized_output"


class MissingOffset(ConfigurationError):
    """A committed offset is missing; it is never read as "earliest"."""

    code = "missing_offset"


class SendFailed(Retryable):
    """The side producer could not deliver a record; the caller still holds it and decides."""

    code = "send_failed"


class BrokerNotReady(Retryable):
    """The broker or its coordinator did not answer; the question is asked again."""

    code = "broker_not_ready"
