"""Server-sent events by the WHATWG rules, as bytes come in: one reading of a stream for sockets and for recorded files.

Two things are stricter than the rules. An event is bounded, and so is a line that never ends. Bytes that are not UTF-8
are refused instead of replaced: a replaced character would become history as if the provider had sent it.
"""

from __future__ import annotations

import re

from turngate.schemas.errors import Refused

EVENT_BYTES_MAX = 1024 * 1024
"""Lines of data of one event, and any other line."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Bytes in, data of dispatched events out. An event that no blank line has ended is never given out.

    bare_json: lines that begin as a JSON object where an event may begin, up to a blank line or the end of the body,
    are an event too; so some servers put an error into a stream.
    """

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX, *, bare_json: bool = False) -> None:
        self._event_bytes_max = event_bytes_max
        self._bare_json = bare_json
        self._fresh = True
        self._bare = False
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._first = True
        self._refused: Refused | None = None

    def feed(self, chunk: bytes) -> list[str]:
        """The data of the events these bytes complete, in order; where the bytes are split makes no difference.

        Raises Refused, `event_too_large` or `invalid_unicode`, from then on at every call. Events that were complete
        before are given out first, and the next call raises.
        """
        if self._refused is not None:
            raise self._refused
        if self._after_cr and chunk:
            # The CR has ended its line already; the LF of a CRLF that was split belongs to it.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines = _LINE_END.split(chunk) if b"\r" in chunk else chunk.split(b"\n")
        rest = lines.pop()
        events: list[str] = []
        try:
            for line in lines:
                self._take(self._whole(line), events)
            self._keep(rest)
        except Refused as error:
            self._refused = error
            self._line.clear()
            self._data.clear()
            if not events:
                raise
        return events

    def end(self) -> list[str]:
        """The body ended: an object without `data:` needs no blank line. Raises Refused as `feed` does."""
        if self._refused is not None:
            raise self._refused
        events: list[str] = []
        if self._bare_json:
            last = self._whole(b"")
            if self._bare or (self._fresh and last.startswith(b"{")):
                self._take(last, events)
                self._take(b"", events)
        return events

    def _keep(self, part: bytes) -> None:
        if part:
            self._line.append(part)
            self._line_bytes += len(part)
            self._bound(self._line_bytes)

    def _whole(self, end: bytes) -> bytes:
        if self._line:
            self._line.append(end)
            end = b"".join(self._line)
            self._line.clear()
            self._line_bytes = 0
        self._bound(len(end))
        if self._first:
            self._first = False
            return end.removeprefix(_BOM)
        return end

    def _bound(self, line_bytes: int) -> None:
        if self._data_bytes + line_bytes > self._event_bytes_max:
            raise Refused(f"an event has more than {self._event_bytes_max} bytes", code="event_too_large")

    def _take(self, line: bytes, events: list[str]) -> None:
        if line == b"":
            self._fresh, self._bare = True, False
            if self._data:
                data = b"\n".join(self._data)
                self._data.clear()
                self._data_bytes = 0
                try:
                    events.append(data.decode("utf-8"))
                except UnicodeDecodeError:
                    raise Refused("an event is not UTF-8", code="invalid_unicode") from None
            return
        if self._bare_json and self._is_bare(line):
            self._data.append(line)
            self._data_bytes += len(line)
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(line)

    def _is_bare(self, line: bytes) -> bool:
        self._bare = self._bare or (self._fresh and line.startswith(b"{"))
        self._fresh = False
        return self._bare


def data_payloads(body: bytes) -> list[str]:
    """The data of every event of a whole recorded body, of any size. Raises Refused (`invalid_unicode`)."""
    decoder = SseDecoder(len(body))
    return [*decoder.feed(body), *decoder.end()]
