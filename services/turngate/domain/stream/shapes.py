"""Events that are written like one before them, save for their text: told by comparing, without reading them again.

Providers write the deltas of a block as one and the same JSON text with another string in one place; some pad them
(with a string that means nothing, or with spaces before the last brace), and some number them. An event that has the
letters of a known one in all other places says what that one said, so its text is all that is to be read of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import orjson

PADDING_FIELDS = ("obfuscation", "p")
"""Fields at the top of an event whose text means nothing in any profile."""

_PADDING = re.compile(rf'"(?:{"|".join(PADDING_FIELDS)})": ?"(?P<padding>[A-Za-z0-9]*)"')
_NUMBER = re.compile(r'"sequence_number": ?(?P<number>[0-9]+)(?=[,}])')
_PROBE = "turngate-probe"
"""A text that no event of the provider may hold where a shape is made of it."""


class Shape(NamedTuple):
    """What stands before a text, and behind it up to the end, or up to the padding, and behind that.

    head ends with the quote that opens the text; the next part begins with the one that closes it. padded: None where
    that is `tail`, and `middle` is empty; otherwise what the padding may consist of. numbered: the part that holds the
    event's number; that part ends before the number, and `rest` is what is behind it.
    """

    head: str
    middle: str
    tail: str
    padded: Literal["text", "spaces"] | None
    numbered: Literal["head", "tail"] | None
    rest: str

    def texts(self, events: Sequence[str], at: int, number: int | None) -> list[str]:
        """The texts of the events from `at` on, up to the first that is not of this shape, or whose text is empty.

        number: which the first of them must have.
        """
        left = events[at:] if at else events
        if self.padded == "spaces":
            return _read(self._between_and_spaces(left))
        if self.padded is None and self.numbered is None:
            return _read(self._between(left))
        return _read(self._between_and_more(left, number or 0))

    def _between(self, events: Sequence[str]) -> list[str]:
        """What stands between head and tail."""
        head, tail = self.head, self.tail
        around = len(head) + len(tail)
        found: list[str] = []
        for raw in events:
            inside = raw.removeprefix(head).removesuffix(tail)
            if len(inside) + around != len(raw):
                break
            found.append(inside)
        return found

    def _between_and_spaces(self, events: Sequence[str]) -> list[str]:
        """The same with spaces as padding."""
        head, middle, tail = self.head, self.middle, self.tail
        found: list[str] = []
        for raw in events:
            before, _, behind = raw.partition(middle)
            inside = before.removeprefix(head)
            if inside == before or behind.lstrip(" ") != tail:
                break
            found.append(inside)
        return found

    def _between_and_more(self, events: Sequence[str], number: int) -> list[str]:
        """The same with a number, a text as padding, or both."""
        head, middle, tail, padded, numbered, rest = self
        in_head, in_tail = numbered == "head", numbered == "tail"
        start = head if in_head else tail
        found: list[str] = []
        for raw in events:
            if in_tail:
                tail = f"{start}{number}{rest}"
            elif in_head:
                head = f"{start}{number}{rest}"
            before = raw.removesuffix(tail)
            inside = before.removeprefix(head)
            if before == raw or inside == before:
                break
            if padded is not None:
                inside, between, padding = inside.partition(middle)
                if not between or not (padding.isalnum() or not padding):
                    break
            found.append(inside)
            number += 1
        return found

    def with_text(self, text: str, number: int | None) -> str:
        """An event of this shape, with some padding."""
        head = f"{self.head}{number}{self.rest}" if self.numbered == "head" else self.head
        tail = f"{self.tail}{number}{self.rest}" if self.numbered == "tail" else self.tail
        padding = {"text": "0", "spaces": "  ", None: ""}[self.padded]
        return f"{head}{text}{self.middle}{padding}{tail}"


def _read(written: list[str]) -> list[str]:
    """The texts that stand for themselves or in escapes, up to the first that is empty or no inside of a string."""
    whole = "".join(written)
    if whole.isprintable() and '"' not in whole and "\\" not in whole and "" not in written:
        return written
    found: list[str] = []
    for inside in written:
        try:
            text = orjson.loads(f'"{inside}"')
        except orjson.JSONDecodeError:
            break
        if not text:
            break
        found.append(text)
    return found


def shape_of(raw: str, text: str, number: int | None, reads: Callable[[Any, int | None], str | None]) -> Shape | None:
    """The shape of an event, or None where it cannot be told or proved.

    text: what the event says. number: which it has. reads: what a parsed event says that must have a number; see
    `Continuation`.

    Proved by an event of the shape with another text, padding and number: `reads` finds just these. As there is no
    backslash outside the text, each quote there opens or closes a string, so what was exchanged is a string of its
    own, and whatever stands there instead, the rest of the event means the same.
    """
    shape = _cut(raw, text, number)
    if shape is None or _PROBE in raw:
        return None
    other = None if number is None else number + 1
    try:
        found = reads(orjson.loads(shape.with_text(_PROBE, other)), other)
    except orjson.JSONDecodeError:
        return None
    return shape if found == _PROBE else None


def _cut(raw: str, text: str, number: int | None) -> Shape | None:
    before, found, behind = raw.partition(orjson.dumps(text).decode())
    if not found and not text.isascii():
        before, found, behind = raw.partition(json.dumps(text))
    if not found or "\\" in before or "\\" in behind:
        return None
    head, middle, tail = before + '"', "", '"' + behind
    padded: Literal["text", "spaces"] | None = None
    padding = _PADDING.search(behind)
    if padding is not None:
        begin, end = padding.span("padding")
        padded, middle, tail = "text", f'"{behind[:begin]}', behind[end:]
    elif number is None and behind.endswith(" }"):
        padded, middle, tail = "spaces", f'"{behind[:-1].rstrip(" ")}', "}"
    if number is None:
        return Shape(head, middle, tail, padded, None, "")
    written = _NUMBER.search(head)
    if written is not None:
        begin, end = written.span("number")
        return Shape(head[:begin], middle, tail, padded, "head", head[end:])
    written = _NUMBER.search(tail)
    if written is not None:
        begin, end = written.span("number")
        return Shape(head, middle, tail[:begin], padded, "tail", tail[end:])
    return None
