"""Quarantine of results: foreign, mismatching, second or late ones are kept with the reason and change nothing."""

from __future__ import annotations

from turngate.runtime.outbound import event_id
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.codec import encode
from turngate.schemas.envelope import cloud_event_headers
from turngate.schemas.quarantine import Origin, Quarantined, payload_of


def quarantined(record: InputRecord, reason: str, call_key: str | None) -> Output:
    """The quarantine record of one result."""
    kept = Quarantined(
        reason=reason,
        origin=Origin(topic=record.topic, partition=record.partition, offset=record.offset),
        key=(record.key or b"").decode("utf-8", "replace"),
        call_key=call_key,
        payload=payload_of(record.value),
    )
    ident = event_id("quarantine", record.topic, record.partition, record.offset, reason)
    return Output(
        topic="quarantine",
        key=record.key or b"",
        value=encode(kept),
        headers=cloud_event_headers(kept, event_id=ident, source="ledger"),
    )
