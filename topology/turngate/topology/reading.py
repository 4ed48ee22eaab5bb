"""How our consumers read from whatever broker they are given. With Apache Kafka none of this changes what is read.

The embedded broker answers an empty fetch at once (`pacing`), and it goes on naming an aborted transaction in every
later fetch of its partition, also in those that begin behind its abort marker. A client that believes it leaves out
whatever that producer committed since: records that were committed and are never seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from turngate.topology.pacing import pace_empty_fetches

Aborted = tuple[int, int]
"""Producer id and first offset of an aborted transaction, as a fetch response names it."""


def read_steadily(consumer: object) -> None:
    """Prepares a started aiokafka consumer. Call it once, before the first record is asked for."""
    pace_empty_fetches(consumer)
    _drop_ended_aborts(consumer)


def reaching(aborted: Iterable[Aborted], fetch_offset: int, data: bytes) -> list[Aborted]:
    """The aborted transactions that reach into a fetched range.

    One that began before the range and reaches into it ends there with an abort marker, and until then its producer
    writes nothing else. So where the producer's first marker in the range commits, it had ended before.
    """
    entries = list(aborted)
    if all(first >= fetch_offset for _, first in entries):
        return entries
    commits = _first_markers(data)
    return [(pid, first) for pid, first in entries if first >= fetch_offset or not commits.get(pid, False)]


def _first_markers(data: bytes) -> dict[int, bool]:
    """Producer id -> whether its first marker in these batches commits."""
    found: dict[int, bool] = {}
    records = MemoryRecords(data)
    while records.has_next():
        batch: Any = records.next_batch()
        if getattr(batch, "is_control_batch", False) and batch.producer_id not in found:
            marker = next(iter(batch), None)
            if marker is not None:
                found[batch.producer_id] = ControlRecord.parse(marker.key) != ABORT_MARKER
    return found


def _drop_ended_aborts(consumer: object) -> None:
    client: Any = getattr(consumer, "_client")  # noqa: B009 - aiokafka offers no public way
    send: Any = client.send

    async def sending(node_id: Any, request: Any, **options: Any) -> Any:
        response = await send(node_id, request, **options)
        if type(response).__name__.startswith("FetchResponse"):
            _amend(request, response)
        return response

    client.send = sending


def _amend(request: Any, response: Any) -> None:
    """Takes the ended ones out of a fetch response, in place.

    topics: [(name, [(partition, ..., aborted, ..., data)])], its width depends on the version.
    """
    offsets = {(topic, row[0]): row[1] for topic, rows in request.topics for row in rows}
    for number, (topic, rows) in enumerate(response.topics):
        if not any(_aborted(row) for row in rows):
            continue
        mended = [_mended(row, offsets.get((topic, row[0]), 0)) for row in rows]
        response.topics[number] = (topic, mended)


def _aborted(row: tuple[Any, ...]) -> list[Aborted]:
    return next((part for part in row if isinstance(part, list)), [])


def _mended(row: tuple[Any, ...], fetch_offset: int) -> tuple[Any, ...]:
    entries = _aborted(row)
    if not entries:
        return row
    kept = reaching([(entry[0], entry[1]) for entry in entries], fetch_offset, bytes(row[-1] or b""))
    return tuple(kept if part is entries else part for part in row)
