"""CloudEvents 1.0 headers (Kafka binary mode) and turngate's own routing headers, on every record."""

from __future__ import annotations

from datetime import UTC, datetime

from turngate.schemas.base import Record

Headers = tuple[tuple[str, bytes], ...]

EPOCH_HEADER = "turngate_epoch"
"""The topology epoch; raised by `topology grow`."""
MOVED_HEADER = "turngate_moved"
"""Set once on a record that was re-produced to its key's partition."""
OPERATION_HEADER = "turngate_operation"
GENERATION_HEADER = "turngate_generation"
RELAY_HEADER = "turngate_relay"


def conversation_key(tenant: str, conversation: str) -> bytes:
    """The record key of every keyed topic."""
    return f"{tenant}/{conversation}".encode()


def cloud_event_headers(
    record: Record | type[Record], *, event_id: str, source: str, time_ms: int | None = None, epoch: int = 1
) -> Headers:
    """The headers of one record. `event_id` is deterministic, so a redo carries the same id.

    time_ms is left out where the record must have the same bytes whenever it is written again.
    """
    headers: list[tuple[str, bytes]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", event_id.encode()),
        ("ce_source", f"/turngate/{source}".encode()),
        ("ce_type", f"io.turngate.{record.SCHEMA}.v1".encode()),
        ("content-type", b"application/json"),
        (EPOCH_HEADER, str(epoch).encode()),
    ]
    if time_ms is not None:
        headers.append(("ce_time", _rfc3339(time_ms).encode()))
    return tuple(headers)


def attempt_headers(operation: str, generation: int, relay: int) -> Headers:
    """Names an attempt in the headers of its frames so that a reader can skip them unparsed."""
    return (
        (OPERATION_HEADER, operation.encode()),
        (GENERATION_HEADER, str(generation).encode()),
        (RELAY_HEADER, str(relay).encode()),
    )


def _rfc3339(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
