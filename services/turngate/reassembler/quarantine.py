"""Quarantine of frames: kept with the reason, bounded per attempt, relay and reason, never acted on."""

from __future__ import annotations

from collections import OrderedDict

from turngate.reassembler.frames import AttemptRef
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import event_id
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.codec import encode
from turngate.schemas.envelope import cloud_event_headers
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX, Origin, Quarantined, payload_of

ROLE = "reassembler"
COUNTERS_MAX = 10_000


class FrameQuarantine:
    """Writes quarantine records; beyond the byte limit of an (attempt, relay, reason) it only counts."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._bytes: OrderedDict[tuple[bytes, str, int, int, str], int] = OrderedDict()

    def put(self, record: InputRecord, ref: AttemptRef, reason: str) -> list[Output]:
        """The quarantine record of one frame, or nothing where the limit is reached."""
        self._metrics.late_blocks.labels(reason=reason).inc()
        # By key too: frames of another conversation that name this attempt must not use up what is kept of it.
        slot = (record.key or b"", ref.operation_id, ref.generation, ref.relay, reason)
        used = self._bytes.pop(slot, 0)
        self._bytes[slot] = used + len(record.value or b"")
        if len(self._bytes) > COUNTERS_MAX:
            self._bytes.popitem(last=False)
        if used > QUARANTINE_BYTES_MAX:
            return []
        kept = Quarantined(
            reason=reason,
            origin=Origin(topic=record.topic, partition=record.partition, offset=record.offset),
            key=(record.key or b"").decode("utf-8", "replace"),
            operation_id=ref.operation_id,
            generation=ref.generation,
            relay=ref.relay,
            payload=payload_of(record.value),
        )
        ident = event_id("quarantine", record.topic, record.partition, record.offset, reason)
        return [
            Output(
                topic="quarantine",
                key=record.key or b"",
                value=encode(kept),
                headers=cloud_event_headers(kept, event_id=ident, source=ROLE),
            )
        ]
