"""How our consumers read from whatever broker they are given. With Apache Kafka none of this changes what is read, but
for header names that are no text (`legible`).

The embedded broker answers an empty fetch at once (`pacing`), and it goes on naming an aborted transaction in every
later fetch of its partition, also in those that begin behind its abort marker. A client that believes it leaves out
whatever that producer committed since: records that were committed and are never seen.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords

from turngate.topology.legible import make_legible
from turngate.topology.pacing import pace_empty_fetches

Aborted = tuple[int, int]
"""Producer id and first offset of an aborted transaction, as a fetch response names it."""

_HEADER = struct.Struct(">qiibihiqqqhii")
"""Of a record batch (magic 2): offset, length, epoch, magic, crc, attributes, last offset's delta, two times, producer
id, its epoch, sequence, count."""
_LENGTH_END = 12
_CONTROL = 0x20


def read_steadily(consumer: object) -> None:
    """Prepares a started aiokafka consumer. Call it once, before the first record is asked for."""
    pace_empty_fetches(consumer)
    _drop_ended_aborts(consumer)
    make_legible(consumer)


def reaching(
    aborted: Iterable[Aborted], fetch_offset: int, data: bytes, stable_offset: int
) -> tuple[list[Aborted], bytes]:
    """The aborted transactions that reach into a fetched range, and as much of the range as that can be said of.

    One that began before the range and reaches into it ends there with an abort marker, and until then its producer
    writes nothing else. So where the producer's first marker in the range commits, it had ended before. Where the range
    is cut before that marker, it is cut before the producer's first batch: the next fetch begins there. And where it is
    not cut, because it reaches the last stable offset, the marker is still being written: nothing is read this time.
    """
    entries = list(aborted)
    earlier = {pid for pid, first in entries if first < fetch_offset}
    if not earlier:
        return entries, data
    commits: dict[int, bool] = {}
    begins: dict[int, int] = {}
    end = fetch_offset
    for place, size, behind, pid, control in _batches(data):
        end = behind
        begins.setdefault(pid, place)
        if control and pid in earlier:
            commits.setdefault(pid, _commits(data[place : place + size]))
    cut = min((begins[pid] for pid in earlier if pid in begins and pid not in commits), default=len(data))
    if cut > 0 or end >= stable_offset:
        data = data[:cut]
    kept = [(pid, first) for pid, first in entries if first >= fetch_offset or not commits.get(pid, False)]
    return kept, data


def _batches(data: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """Place, size in bytes, next offset, producer id and whether it is a control batch, of every whole batch."""
    place = 0
    while place + _HEADER.size <= len(data):
        header = _HEADER.unpack_from(data, place)
        size = _LENGTH_END + header[1]
        if header[3] != 2 or place + size > len(data):
            return
        yield place, size, header[0] + header[6] + 1, header[9], bool(header[5] & _CONTROL)
        place += size


def _commits(control_batch: bytes) -> bool:
    batch: Any = MemoryRecords(control_batch).next_batch()
    marker = next(iter(batch), None)
    return marker is not None and ControlRecord.parse(marker.key) != ABORT_MARKER


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

    topics: [(name, [(partition, error, high watermark, stable offset, ..., aborted, ..., data)])].
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
    kept, data = reaching([(entry[0], entry[1]) for entry in entries], fetch_offset, bytes(row[-1] or b""), row[3])
    return (*(kept if part is entries else part for part in row[:-1]), data)
