"""Header names that are no text, made legible before the client reads them.

Kafka lets a producer write any bytes there; our client raises at them, for ever at the same record, and drops what it
had collected of other partitions in that call. One such record would stop every partition of a process. So each fetched
batch is tried first, and where it cannot be read each byte of a name that is not ASCII becomes `?`. Nothing of ours has
such a name, so what is read stays the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import calc_crc32c, decode_varint

_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Of a record batch (magic 2): offset, length, epoch, magic, crc, attributes, ..., count of records."""
_LENGTH_END, _CRC_PLACE, _CHECKED_FROM = 12, 17, 21
_CODEC, _CONTROL = 0x07, 0x20
_DECODERS: Mapping[int, Callable[[bytes], bytes]] = {
    1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode,
}  # fmt: skip


def make_legible(consumer: object) -> None:
    """Lets a started aiokafka consumer read records with any header names."""
    client: Any = getattr(consumer, "_client")  # noqa: B009 - aiokafka offers no public way
    send: Any = client.send

    async def sending(node_id: Any, request: Any, **options: Any) -> Any:
        response = await send(node_id, request, **options)
        if type(response).__name__.startswith("FetchResponse"):
            for number, (topic, rows) in enumerate(response.topics):
                response.topics[number] = (topic, [(*row[:-1], legible(row[-1])) for row in rows])
        return response

    client.send = sending


def legible(data: bytes | None) -> bytes | None:
    """Fetched batches in a form the client can read; the very same bytes where it can read them already."""
    if not data:
        return data
    whole = bytes(data)
    place, changed = 0, False
    parts: list[bytes] = []
    while place + _HEADER.size <= len(whole):
        fields = _HEADER.unpack_from(whole, place)
        behind = place + _LENGTH_END + fields[1]
        if fields[3] != 2 or behind > len(whole):
            break
        batch = whole[place:behind]
        if not fields[5] & _CONTROL and not _can_be_read(batch):
            batch, changed = _rewritten(batch), True
        parts.append(batch)
        place = behind
    return b"".join((*parts, whole[place:])) if changed else data


def _can_be_read(batch: bytes) -> bool:
    try:
        for _ in DefaultRecordBatch(batch):
            pass
    except (CorruptRecordException, UnicodeDecodeError):
        return False
    except Exception:
        # A codec that is missing, or data it refuses: the client says so itself, and of its own partition alone.
        return True
    return True


def _rewritten(batch: bytes) -> bytes:
    """The batch with legible header names, uncompressed; as it was where it is broken in some other way."""
    fields = list(_HEADER.unpack_from(batch))
    records = batch[_HEADER.size :]
    try:
        codec = fields[5] & _CODEC
        body = bytearray(_DECODERS[codec](records) if codec else records)
        place = 0
        for _ in range(fields[12]):
            place = _mend_record(body, place)
    except (LookupError, ValueError):
        return batch
    fields[1] = _HEADER.size - _LENGTH_END + len(body)
    fields[5] &= ~_CODEC
    mended = bytearray(_HEADER.pack(*fields)) + body
    struct.pack_into(">I", mended, _CRC_PLACE, calc_crc32c(bytes(mended[_CHECKED_FROM:])))
    return bytes(mended)


def _mend_record(body: bytearray, place: int) -> int:
    """Mends the header names of the record that begins here, in place; returns where the next one begins."""
    length, place = decode_varint(body, place)
    behind = place + length
    place += 1  # attributes
    for _ in range(2):  # timestamp, offset
        _, place = decode_varint(body, place)
    for _ in range(2):  # key, value
        size, place = decode_varint(body, place)
        place += max(size, 0)
    count, place = decode_varint(body, place)
    for _ in range(count):
        size, place = decode_varint(body, place)
        name = bytes(body[place : place + size])
        body[place : place + size] = bytes(byte if byte < 0x80 else ord("?") for byte in name)
        place += size
        size, place = decode_varint(body, place)
        place += max(size, 0)
    if place != behind:
        raise ValueError("a record is not as long as it says")
    return behind
