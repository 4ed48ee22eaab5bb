"""The bodies that providers send, as bytes come in: which reader a body has, and the one reader that is only here.

A recorded body is read by the same readers as a socket, so what `turngate conformance` judges is what the fleet gets.
"""

from __future__ import annotations

import json
import re
from json import JSONDecoder
from typing import Literal, Protocol

from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.stream.eventstream import EventStreamDecoder
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.sse_text import EVENT_BYTES_MAX, SseDecoder
from turngate.schemas.errors import Refused

SERVER_SENT = "text/event-stream"
BINARY = "application/vnd.amazon.eventstream"

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_INK = re.compile(rb"[^ \t\r\n]")
_SCALAR_END = re.compile(rb"[ \t\r\n,\]]")
_BRACKET_OR_QUOTE = re.compile(rb'["\[\]{}]')
_QUOTE_OR_ESCAPE = re.compile(rb'["\\]')
_DECODER = JSONDecoder()


class BodyDecoder(Protocol):
    """Bytes in, texts of whole events out, wherever the bytes are split.

    Both raise Refused from the first fault on; what was complete before it is given out first.
    """

    def feed(self, chunk: bytes) -> list[str]: ...

    def end(self) -> list[str]:
        """The body ended in order: what only its end completes."""
        ...


def body_decoder(profile: str, media_type: str, event_bytes_max: int = EVENT_BYTES_MAX) -> BodyDecoder | None:
    """How a body of this media type (lower case, without parameters) is read; None: it is no stream of this profile."""
    if media_type == BINARY:
        return EventStreamDecoder(event_bytes_max)
    if _has_json_bodies(profile):
        if media_type == SERVER_SENT or is_json(media_type):
            return JsonBodyDecoder(event_bytes_max)
        return None
    return SseDecoder(event_bytes_max) if media_type == SERVER_SENT else None


def is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def whole_object(body: bytes) -> str | None:
    """The text of a body that is one JSON object, in place of a stream; None for any other."""
    try:
        text = body.removeprefix(_BOM).decode("utf-8")
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, RecursionError):
        return None


def body_payloads(body: bytes, profile: str) -> list[str]:
    """The events of a whole recorded body that is text. Raises Refused (`invalid_unicode`)."""
    size = max(len(body), EVENT_BYTES_MAX)
    if not _has_json_bodies(profile):
        whole = whole_object(body) if body.removeprefix(_BOM).lstrip(_SPACE).startswith(b"{") else None
        if whole is not None:
            return [whole]
        decoder: BodyDecoder = SseDecoder(size)
    else:
        decoder = JsonBodyDecoder(size)
    return [*decoder.feed(body), *decoder.end()]


def _has_json_bodies(profile: str) -> bool:
    try:
        return find_normaliser(profile).facts.json_bodies
    except UnknownNormaliser:
        return False


class JsonBodyDecoder:
    """A body of a profile with `json_bodies`: one JSON array, or server-sent events among which an object may stand
    without `data:`. Its first character tells."""

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._event_bytes_max = event_bytes_max
        self._head = b""
        self._inner: ArrayDecoder | SseDecoder | None = None

    def feed(self, chunk: bytes) -> list[str]:
        if self._inner is not None:
            return self._inner.feed(chunk)
        self._head += chunk
        ink = _INK.search(self._head.removeprefix(_BOM))
        if (ink is None or _BOM.startswith(self._head)) and len(self._head) <= self._event_bytes_max:
            return []
        head, self._head = self._head, b""
        if ink is not None and ink.group() == b"[":
            self._inner = ArrayDecoder(self._event_bytes_max)
            return self._inner.feed(head.removeprefix(_BOM)[ink.end() :])
        self._inner = SseDecoder(self._event_bytes_max, bare_json=True)
        return self._inner.feed(head)

    def end(self) -> list[str]:
        return [] if self._inner is None else self._inner.end()


class ArrayDecoder:
    """One JSON array behind its opening bracket, element by element, each the exact text it has.

    Of an array that is cut or followed by something, what remains unread comes last, as an event that no reader takes.
    """

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._event_bytes_max = event_bytes_max
        self._buffer = bytearray()
        self._state: Literal["first", "element", "after", "closed", "rest"] = "first"
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self._refused: Refused | None = None

    def feed(self, chunk: bytes) -> list[str]:
        if self._refused is not None:
            raise self._refused
        self._buffer += chunk
        events: list[str] = []
        try:
            while self._step(events):
                pass
            self._bound(len(self._buffer))
        except Refused as error:
            self._refused = error
            self._buffer.clear()
            if not events:
                raise
        return events

    def end(self) -> list[str]:
        if self._refused is not None:
            raise self._refused
        events: list[str] = []
        if self._state in ("first", "element") and self._buffer:
            self._take(len(self._buffer), events)
            self._skip_space()
        rest = _text(self._buffer)
        if self._state != "closed":
            events.append(rest)
        elif rest.strip():
            events.append(rest.strip())
        return events

    def _step(self, events: list[str]) -> bool:
        """One state further; False where more bytes are needed."""
        if self._state == "rest":
            return False
        self._skip_space()
        if not self._buffer:
            return False
        first = bytes(self._buffer[:1])
        if self._state == "element" or (self._state == "first" and first != b"]"):
            self._state = "element"
            end = self._element_end(first)
            if end is None:
                return False
            self._take(end, events)
        elif self._state in ("first", "after") and first in (b"]", b","):
            del self._buffer[:1]
            self._state = "closed" if first == b"]" else "element"
        else:
            if self._state == "after":
                self._state = "rest"
            return False
        return True

    def _skip_space(self) -> None:
        if self._scanned == 0:
            ink = _INK.search(self._buffer)
            del self._buffer[: len(self._buffer) if ink is None else ink.start()]

    def _element_end(self, first: bytes) -> int | None:
        """Where the element must end if it is JSON; None where that is still to come."""
        if first not in (b"{", b"[", b'"'):
            found = _SCALAR_END.search(self._buffer)
            return None if found is None else found.start()
        at = self._scanned
        while True:
            token = (_QUOTE_OR_ESCAPE if self._in_string else _BRACKET_OR_QUOTE).search(self._buffer, at)
            if token is None:
                self._scanned = len(self._buffer)
                return None
            at = token.end()
            if token.group() == b"\\":
                if at == len(self._buffer):
                    self._scanned = token.start()
                    return None
                at += 1
                continue
            if token.group() == b'"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if token.group() in (b"{", b"[") else -1
            if self._depth == 0 and not self._in_string:
                return at

    def _take(self, end: int, events: list[str]) -> None:
        """The element in the first `end` bytes; where they are none, all from here on is rest."""
        self._scanned, self._depth, self._in_string = 0, 0, False
        self._bound(end)
        text = _text(self._buffer[:end])
        try:
            _, length = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            self._state = "rest"
            return
        events.append(text[:length])
        del self._buffer[: len(text[:length].encode())]
        self._state = "after"

    def _bound(self, size: int) -> None:
        if size > self._event_bytes_max:
            raise Refused(f"an event has more than {self._event_bytes_max} bytes", code="event_too_large")


def _text(data: bytes | bytearray) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("the body is not UTF-8", code="invalid_unicode") from None
