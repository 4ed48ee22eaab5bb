"""Which aborted transactions reach into a fetched range (topology/reading.py)."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from turngate.topology.reading import reaching

ABORT, COMMIT = 0, 1
ONE, TWO = 101, 102


def batch(offset: int, producer: int, *, marker: int | None = None) -> bytes:
    """A transactional batch of one record, or a control batch."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=producer, producer_epoch=0, base_sequence=0,
        batch_size=10_000,
    )  # fmt: skip
    key = None if marker is None else struct.pack(">hh", 0, marker)
    builder.append(0, 1_700_000_000_000, key, b"value", [])
    data = bytearray(builder.build())
    data[0:8] = struct.pack(">q", offset)
    if marker is not None:
        attributes = struct.unpack(">h", data[21:23])[0]
        data[21:23] = struct.pack(">h", attributes | 0x20)
    return bytes(data)


def reach(aborted: list[tuple[int, int]], fetch_offset: int, data: bytes, stable: int = 1_000):
    return reaching(aborted, fetch_offset, data, stable)


def test_an_abort_whose_marker_lies_behind_the_range_is_left_out() -> None:
    data = batch(27, ONE) + batch(28, ONE, marker=COMMIT)
    assert reach([(ONE, 19)], 27, data) == ([], data)


def test_an_abort_that_ends_in_the_range_is_kept() -> None:
    data = batch(20, ONE) + batch(21, ONE, marker=ABORT) + batch(22, ONE) + batch(23, ONE, marker=COMMIT)
    assert reach([(ONE, 19)], 20, data) == ([(ONE, 19)], data)


def test_an_abort_that_begins_in_the_range_is_kept() -> None:
    data = batch(20, ONE) + batch(21, ONE, marker=COMMIT) + batch(22, ONE) + batch(23, ONE, marker=ABORT)
    assert reach([(ONE, 22)], 20, data) == ([(ONE, 22)], data)


def test_a_range_that_is_cut_before_the_marker_ends_before_that_producer() -> None:
    said = batch(20, TWO) + batch(21, TWO, marker=COMMIT)
    kept, data = reach([(ONE, 19)], 20, said + batch(22, ONE) + batch(23, TWO))
    assert data == said
    assert kept == [(ONE, 19)]


def test_where_the_undecided_producer_is_first_the_broker_is_believed() -> None:
    data = batch(20, ONE)
    assert reach([(ONE, 19)], 20, data) == ([(ONE, 19)], data)


def test_a_marker_that_is_still_being_written_is_waited_for() -> None:
    kept, data = reach([(ONE, 19)], 20, batch(20, ONE) + batch(21, TWO), stable=22)
    assert data == b""
    assert kept == [(ONE, 19)]


def test_producers_are_told_apart() -> None:
    data = batch(20, TWO) + batch(21, TWO, marker=COMMIT) + batch(22, ONE, marker=ABORT)
    assert reach([(ONE, 10), (TWO, 5)], 20, data) == ([(ONE, 10)], data)


@pytest.mark.parametrize("data", [b"", b"\x00" * 10, batch(20, ONE)[:-1]])
def test_a_range_without_whole_batches_decides_nothing(data: bytes) -> None:
    assert reach([(ONE, 19)], 20, data) == ([(ONE, 19)], data)
