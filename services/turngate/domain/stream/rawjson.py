"""Finds the exact text of a value inside a JSON text, so that opaque values are never serialised again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import JSONDecodeError, JSONDecoder

import orjson

_SPACE = re.compile(r"[ \t\r\n]*")
_BLANK = frozenset(" \t\r\n")
_DECODER = JSONDecoder(parse_int=float)  # the value is not used, and an integer may have more digits than int takes
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{}\]]')


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] not in _BLANK:  # nearly always: providers send compact JSON
        return at
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value_end(text: str, at: int) -> int:
    try:
        _, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        return _bracket_end(text, at)
    return end


def _bracket_end(text: str, at: int) -> int:
    """Where a list or an object ends that is nested deeper than the decoder goes. The text must be JSON."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, at):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    raise IndexError("the text ends inside a value")


def span(text: str, path: Sequence[str | int]) -> tuple[int, int] | None:
    """Start and end of the value at `path` (keys and list places), or None where there is none.

    `text` must be JSON. Of a repeated key the last one counts, as for every parser used here.
    """
    at = _skip(text, 0)
    try:
        if not path:
            return at, _value_end(text, at)
        found: tuple[int, int] | None = None
        for step in path:
            found = _member(text, at, step) if isinstance(step, str) else _element(text, at, step)
            if found is None:
                return None
            at = found[0]
    except (JSONDecodeError, IndexError):
        return None
    return found


def slice_at(text: str, path: Sequence[str | int]) -> str | None:
    """The exact text of the value at `path`, or None where there is none."""
    found = span(text, path)
    return None if found is None else text[found[0] : found[1]]


def again(text: str, value: object, other: object) -> str | None:
    """`other` in the writing of a JSON text, where that says what it holds in the shortest way; otherwise None.

    value: `text`, parsed. other: a part of it, or all of it with another part: what both have is written alike.
    """
    try:
        return orjson.dumps(other).decode() if orjson.dumps(value) == text.encode() else None
    except (TypeError, UnicodeEncodeError):  # nested too deeply to be written
        return None


def elements(text: str, path: Sequence[str | int]) -> list[str] | None:
    """The exact texts of the elements of the list at `path`, or None where there is no list."""
    found = span(text, path)
    if found is None or text[found[0]] != "[":
        return None
    out: list[str] = []
    at = _skip(text, found[0] + 1)
    while text[at] != "]":
        end = _value_end(text, at)
        out.append(text[at:end])
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return out


def replaced(text: str, path: Sequence[str | int], value: str) -> str:
    """`text` with the value at `path` replaced, everything else byte for byte; unchanged where the path is
    absent."""
    found = span(text, path)
    return text if found is None else text[: found[0]] + value + text[found[1] :]


def _member(text: str, at: int, key: str) -> tuple[int, int] | None:
    if text[at] != "{":
        return None
    last: tuple[int, int] | None = None
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        if text[at] != ":":
            at = _skip(text, at)
        at += 1
        if text[at] in _BLANK:
            at = _skip(text, at)
        end = _value_end(text, at)
        if name == key:
            last = at, end
        at = end
        if text[at] in _BLANK:
            at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return last


def _element(text: str, at: int, place: int) -> tuple[int, int] | None:
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    count = 0
    while text[at] != "]":
        end = _value_end(text, at)
        if count == place:
            return at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        count += 1
    return None
