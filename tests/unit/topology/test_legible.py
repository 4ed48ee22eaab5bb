"""Records whose header names are no text can be read all the same (topology/legible.py)."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record import default_records
from aiokafka.record.memory_records import MemoryRecords

from turngate.topology.legible import legible

CODECS = (0, 1)
"""None, gzip. The others need a package that is not there."""
Name = str | bytes


class Raw(str):
    """A header name of any bytes, for a builder in Python; the one in C takes text only."""

    raw: bytes

    def encode(self, *_: object) -> bytes:
        return self.raw


def raw(name: Name) -> str:
    if isinstance(name, str):
        return name
    text = Raw()
    text.raw = name
    return text


def batch(*records: list[tuple[Name, bytes | None]], offset: int = 0, codec: int = 0, attributes: int = 0) -> bytes:
    """One batch; each record is given by its headers."""
    make: Any = getattr(default_records, "_DefaultRecordBatchBuilderPy")  # noqa: B009
    builder = make(
        magic=2, compression_type=codec, is_transactional=1, producer_id=7, producer_epoch=0, base_sequence=0,
        batch_size=1_000_000,
    )  # fmt: skip
    for number, headers in enumerate(records):
        named = [(raw(name), value) for name, value in headers]
        builder.append(number, 1_700_000_000_000 + number, b"k", b"v" * 1_000, named)
    data = bytearray(builder.build())
    data[0:8] = offset.to_bytes(8, "big")
    data[22] |= attributes
    return bytes(data)


def read(data: bytes | None) -> list[tuple[int, int, bytes, bytes, list[tuple[str, bytes | None]]]]:
    """What the client reads: offset, time, key, value, headers. Raises CorruptRecordException."""
    found = []
    batches: Any = MemoryRecords(data)
    while batches.has_next():
        one = batches.next_batch()
        assert one.validate_crc()
        assert one.is_transactional
        found += [(row.offset, row.timestamp, row.key, row.value, list(row.headers)) for row in one]
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_that_are_no_text_become_question_marks(codec: int) -> None:
    bad = batch([("a", b"1")], [(b"\xff\xfe-x", None), ("b", b"\x80")], [], codec=codec)
    with pytest.raises((CorruptRecordException, UnicodeDecodeError)):
        read(bad)
    found = read(legible(bad))
    assert [row[4] for row in found] == [[("a", b"1")], [("??-x", None), ("b", b"\x80")], []]
    good = read(batch([("a", b"1")], [("??-x", None), ("b", b"\x80")], [], codec=codec))
    assert found == good


@pytest.mark.parametrize("codec", CODECS)
def test_what_can_be_read_is_left_alone(codec: int) -> None:
    data = batch([("größe", b"1")], [], codec=codec)
    assert legible(data) is data


def test_only_the_batch_that_needs_it_is_changed() -> None:
    first, bad, last = batch([("a", b"1")]), batch([(b"\xff", b"2")], offset=1), batch([("c", b"3")], offset=2)
    cut = batch([("d", b"4")], offset=3)[:40]
    mended = legible(first + bad + last + cut)
    assert mended is not None
    assert mended.startswith(first)
    assert mended.endswith(last + cut)
    assert [(row[0], row[4]) for row in read(mended[: -len(cut)])] == [
        (0, [("a", b"1")]), (1, [("?", b"2")]), (2, [("c", b"3")]),
    ]  # fmt: skip


def test_what_is_broken_otherwise_stays_broken() -> None:
    data = bytearray(batch([("a", b"1")]))
    data[61] ^= 0x7E  # the record's length
    assert legible(bytes(data)) == bytes(data)
    with pytest.raises((CorruptRecordException, AssertionError)):
        read(legible(bytes(data)))


def test_what_cannot_be_decompressed_is_left_to_the_client() -> None:
    data = batch([("a", b"1")], attributes=3)
    assert legible(data) is data


@pytest.mark.parametrize("data", [None, b"", b"x", b"\x00" * 100])
def test_nothing_and_nonsense(data: bytes | None) -> None:
    assert legible(data) == data
