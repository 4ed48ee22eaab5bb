"""AWS `application/vnd.amazon.eventstream` as bytes come in: framed, checksummed messages to events as JSON text.

A message is: total length u32, headers length u32, CRC32 of those eight bytes u32; headers; payload; CRC32 of all
before it u32; everything big-endian. A header is: length of its name u8, name, type u8, value; text and bytes carry
their length as u16.

An event's text is `{event-type: payload}`, the payload exactly as received; an exception's `{exception-type: payload}`.
A message of type `error` has no payload of its own and becomes `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import cast

import orjson

from turngate.domain.stream.sse_text import EVENT_BYTES_MAX
from turngate.schemas.errors import Refused

HEADERS_BYTES_MAX = 128 * 1024
_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_FRAME_BYTES_MIN = _PRELUDE.size + _CRC.size

_TEXT = 7
_FIXED_BYTES: Mapping[int, int] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Header type -> bytes of its value: true, false, i8, i16, i32, i64, timestamp, uuid."""
_SIZED = frozenset({6, _TEXT})
"""Header types whose value begins with its length: bytes and text."""


class EventStreamDecoder:
    """Bytes in, texts of whole messages out. A message that is not complete and sound is never given out.

    event_bytes_max: of one message, checked as soon as its length is known.
    """

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._event_bytes_max = event_bytes_max
        self._buffer = bytearray()
        self._needed = _PRELUDE.size
        self._refused: Refused | None = None

    def feed(self, chunk: bytes) -> list[str]:
        """The events these bytes complete, in order; where the bytes are split makes no difference.

        Raises Refused from then on at every call: `bad_checksum`, `bad_frame` (a length, a header or a payload that
        cannot be), `event_too_large`, `invalid_unicode`. Events that were complete before are given out first, and
        the next call raises.
        """
        if self._refused is not None:
            raise self._refused
        self._buffer += chunk
        events: list[str] = []
        at = 0
        try:
            while len(self._buffer) - at >= self._needed:
                if self._needed == _PRELUDE.size:
                    self._needed = self._length(at)
                else:
                    events.append(_event(bytes(self._buffer[at : at + self._needed])))
                    at += self._needed
                    self._needed = _PRELUDE.size
        except Refused as error:
            self._refused = error
            self._buffer.clear()
            if not events:
                raise
            return events
        del self._buffer[:at]
        return events

    def end(self) -> list[str]:
        """No more bytes will come, and nothing more is complete.

        Raises Refused: `cut_frame` where they ended inside a message, or what `feed` refused.
        """
        if self._refused is None and self._buffer:
            self._refused = Refused("the bytes end inside a message", code="cut_frame")
        if self._refused is not None:
            raise self._refused
        return []

    def _length(self, at: int) -> int:
        total, headers, crc = _PRELUDE.unpack_from(self._buffer, at)
        if zlib.crc32(self._buffer[at : at + 8]) != crc:
            raise Refused("the checksum of a message's prelude is wrong", code="bad_checksum")
        if headers > HEADERS_BYTES_MAX or total < _FRAME_BYTES_MIN + headers:
            raise Refused("the lengths of a message cannot be", code="bad_frame")
        if total > self._event_bytes_max:
            raise Refused(f"an event has more than {self._event_bytes_max} bytes", code="event_too_large")
        return int(total)


def is_event_stream(body: bytes) -> bool:
    """Whether a recorded body begins as this format does; no text begins with a length and its checksum."""
    return len(body) >= _PRELUDE.size and _CRC.unpack_from(body, 8)[0] == zlib.crc32(body[:8])


def event_texts(body: bytes) -> tuple[list[str], str | None]:
    """The events of a whole recorded body up to the first fault, and that fault's code."""
    decoder = EventStreamDecoder(max(len(body), EVENT_BYTES_MAX))
    events: list[str] = []
    try:
        events = decoder.feed(body)
        decoder.end()
    except Refused as error:
        return events, error.code
    return events, None


def _event(frame: bytes) -> str:
    (crc,) = _CRC.unpack_from(frame, len(frame) - _CRC.size)
    if zlib.crc32(frame[: -_CRC.size]) != crc:
        raise Refused("the checksum of a message is wrong", code="bad_checksum")
    payload_at = _PRELUDE.size + _PRELUDE.unpack_from(frame)[1]
    headers = _headers(frame, payload_at)
    payload = frame[payload_at : -_CRC.size]
    kind = headers.get(":message-type")
    if kind == "event":
        return f"{{{json.dumps(_named(headers, ':event-type'))}:{_object(payload)}}}"
    if kind == "exception":
        return _exception(_named(headers, ":exception-type"), payload)
    if kind == "error":
        return _error(_named(headers, ":error-code"), headers.get(":error-message"))
    raise Refused("a message is neither event nor exception nor error", code="bad_frame")


def _headers(frame: bytes, end: int) -> dict[str, str | None]:
    """Every header by name; only text has a value here."""
    found: dict[str, str | None] = {}
    at = _PRELUDE.size
    while at < end:
        name_end = at + 1 + frame[at]
        if name_end >= end:
            raise Refused("a header is cut", code="bad_frame")
        name, kind = _text(frame[at + 1 : name_end]), frame[name_end]
        at = name_end + 1
        size = _FIXED_BYTES.get(kind)
        if kind in _SIZED:
            size = int.from_bytes(frame[at : at + 2], "big")
            at += 2
        if size is None or at + size > end or not name or name in found:
            raise Refused("a header is cut, repeated, or of an unknown type", code="bad_frame")
        found[name] = _text(frame[at : at + size]) if kind == _TEXT else None
        at += size
    return found


def _named(headers: Mapping[str, str | None], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Refused("a message does not say what it is", code="bad_frame")
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("a message is not UTF-8", code="invalid_unicode") from None


def _object(payload: bytes) -> str:
    """The payload's exact text; it must be one JSON object, so that nothing can follow it inside the event."""
    text = _text(payload) or "{}"
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Refused("the payload of a message is not a JSON object", code="bad_frame")
    return text


def _exception(name: str, payload: bytes) -> str:
    """An exception stays one, whatever its payload holds and however it is named."""
    try:
        text = _object(payload)
    except Refused:
        text = "{}"
    if name.endswith("Exception"):
        return f"{{{json.dumps(name)}:{text}}}"
    message = cast("dict[str, object]", orjson.loads(text)).get("message")
    return _error(name, message if isinstance(message, str) else None)


def _error(code: str, message: str | None) -> str:
    return json.dumps({"error": {"code": code, "message": message or ""}}, separators=(",", ":"))
