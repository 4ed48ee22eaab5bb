"""Sequence numbers: events in their order, each once, and a gap never unnoticed.

A response's events are numbered from 0 without gaps, keep-alives among them; a resumed stream goes on with the same
numbers. Some servers begin at 1 or leave the number 0 out, and some send none at all. The numbers are the only
identity of a delta.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from zlib import crc32

import orjson

from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.domain.stream import operations as op

Json = dict[str, object]
Event = tuple[Json, str]


class Numbering:
    """Which event is due.

    due: the next number, None while no event had one. sums: of every event passed, from the first number on.
    waiting: what came ahead of its number.
    """

    __slots__ = ("_base", "_characters", "due", "sums", "waiting")

    def __init__(self) -> None:
        self.due: int | None = None
        self.waiting: dict[int, Event] = {}
        self._base = 0
        self.sums = array("I")
        self._characters = 0

    def take(self, event: Json, raw: str, out: list[op.Operation]) -> Sequence[Event]:
        """The events to be read now: this one, none, or this one and those that waited for it."""
        number = event.get("sequence_number")
        if type(number) is not int or number < 0:
            if self.due is not None and word_of(event).startswith("response."):
                out.append(op.Note("missing_events", "error", "an event without a number in a numbered stream"))
            return ((event, raw),)
        if self.due is None:
            if number > 1:
                out.append(op.Note("missing_events", "error", "the stream does not begin at its first event"))
            self.due = self._base = number
        if number < self.due or number in self.waiting:
            self._again(number, event, raw, out)
            return ()
        if number > self.due:
            return self._early(number, event, raw, out)
        self._passed(event, raw)
        if not self.waiting:
            return ((event, raw),)
        return ((event, raw), *self._released())

    def _passed(self, event: Json, raw: str) -> None:
        self.due = (self.due or 0) + 1
        self.sums.append(_sum(event, raw))

    def passed_deltas(self, texts: Sequence[str], seed: int) -> None:
        """The deltas that were due, of one place; their texts are sound Unicode."""
        if self.due is not None:
            self.due += len(texts)
            self.sums.extend([crc32(text.encode(), seed) for text in texts])

    def _released(self) -> list[Event]:
        out: list[Event] = []
        while self.due in self.waiting:
            event, raw = self.waiting.pop(self.due)
            self._characters -= len(raw)
            self._passed(event, raw)
            out.append((event, raw))
        return out

    def _again(self, number: int, event: Json, raw: str, out: list[op.Operation]) -> None:
        if number in self.waiting:
            known = _sum(*self.waiting[number])
        elif number >= self._base:
            known = self.sums[number - self._base]
        else:
            out.append(op.Note("missing_events", "error", "an event from before the first one"))
            return
        if known != _sum(event, raw):
            out.append(op.Note("identity_collision", "error", "two events have the same number"))

    def _early(self, number: int, event: Json, raw: str, out: list[op.Operation]) -> Sequence[Event]:
        """An event ahead of a gap waits. Behind a terminal or an error nothing will fill the gap."""
        self.waiting[number] = (event, raw)
        self._characters += len(raw)
        last = word_of(event) in tables.TERMINALS or word_of(event) == "error"
        full = len(self.waiting) > tables.WINDOW_EVENTS or self._characters > tables.WINDOW_CHARACTERS
        if not (last or full):
            return ()
        out.append(op.Note("missing_events", "error", "numbers of the stream are missing"))
        found: list[Event] = []
        while self.waiting:
            self.due = self._base = min(self.waiting)
            del self.sums[:]
            found += self._released()
        return found


def word_of(event: Json) -> str:
    """The event's type, empty where it has none."""
    word = event.get("type")
    return word if isinstance(word, str) else ""


def delta_seed(word: str, index: object, place: object) -> int:
    """What the sum of a delta begins with, so that the same text elsewhere is another event."""
    return crc32(f"{word} {index} {place}".encode())


def _sum(event: Json, raw: str) -> int:
    """Of a delta its place and text alone: its padding may differ when it is sent again."""
    word, text = word_of(event), event.get("delta")
    family = tables.DELTAS.get(word)
    if family is not None and isinstance(text, str):
        place = event.get(family.place) if family.place else None
        return crc32(text.encode("utf-8", "surrogatepass"), delta_seed(word, event.get("output_index"), place))
    if "obfuscation" in event:
        kept = {key: value for key, value in event.items() if key != "obfuscation"}
        with suppress(orjson.JSONEncodeError):  # nested too deep to be written again: its own bytes are compared
            raw = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
    return crc32(raw.encode("utf-8", "surrogatepass"))
