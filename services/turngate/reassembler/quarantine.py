"""Quarantine of frames: kept with the reason, bounded per attempt, relay and reason, never acted on."""

from __future__ import annotations

from collections import OrderedDict

from turngate.reassembler.closing import CLOSING_BYTES_MAX, closing_frames
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
    """Writes quarantine records; beyond the byte limit of an (attempt, relay, reason) of the events that close a turn
    alone, and counts the rest."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._bytes: OrderedDict[tuple[bytes, str, int, int, str], tuple[int, int]] = OrderedDict()

    def put(self, record: InputRecord, ref: AttemptRef, reason: str) -> list[Output]:
        """The quarantine record of one frame; beyond the limit, of what `closing_frames` finds in it."""
        self._metrics.late_blocks.labels(reason=reason).inc()
        # By key too: frames of another conversation that name this attempt must not use up what is kept of it.
        slot = (record.key or b"", ref.operation_id, ref.generation, ref.relay, reason)
        used, closing = self._bytes.pop(slot, (0, 0))
        value = record.value or b""
        outputs: list[Output] = []
        if used <= QUARANTINE_BYTES_MAX:
            outputs.append(self._record(record, ref, reason, value, QUARANTINE_BYTES_MAX))
        if not outputs or len(value) > QUARANTINE_BYTES_MAX:
            for part in closing_frames(value):
                if closing + len(part) <= CLOSING_BYTES_MAX:
                    closing += len(part)
                    outputs.append(self._record(record, ref, reason, part, CLOSING_BYTES_MAX))
        self._bytes[slot] = (used + len(value), closing)
        if len(self._bytes) > COUNTERS_MAX:
            self._bytes.popitem(last=False)
        return outputs

    @staticmethod
    def _record(record: InputRecord, ref: AttemptRef, reason: str, value: bytes, limit: int) -> Output:
        kept = Quarantined(
            reason=reason,
            origin=Origin(topic=record.topic, partition=record.partition, offset=record.offset),
            key=(record.key or b"").decode("utf-8", "replace"),
            operation_id=ref.operation_id,
            generation=ref.generation,
            relay=ref.relay,
            payload=payload_of(value, limit),
        )
        # With the digest: of one frame several parts may be kept.
        ident = event_id("quarantine", record.topic, record.partition, record.offset, reason, kept.payload.digest)
        return Output(
            topic="quarantine",
            key=record.key or b"",
            value=encode(kept),
            headers=cloud_event_headers(kept, event_id=ident, source=ROLE),
        )
