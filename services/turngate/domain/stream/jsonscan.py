"""Reads JSON text that may be broken, cut off or followed by more: where its strings, numbers and words lie.

Nothing is corrected and nothing raises. The path of a token is exact as long as the text is JSON, and a best
guess behind the first fault. Only forward: what follows never changes what was said of the text before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

DEPTH_KEPT = 64
"""Steps of a path that are kept; below that the path stays what it is, so that no text costs more than its length."""

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.|\\\Z)*"?)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<colon>:)|(?P<comma>,)'
    r'|(?P<run>[^\s{}\[\]:,"]+)',
    re.DOTALL,
)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_WORD = re.compile(r"true|false|null|NaN|-?Infinity")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}

Path = tuple[str | int, ...]
Kind = Literal["key", "text", "number", "word", "junk", "container"]


class Token(NamedTuple):
    """A part of the text, from `start` to before `end`. Of strings the part between the quotes.

    path: of the value; of a key, that of its object. A container's token comes when it is closed.
    """

    kind: Kind
    start: int
    end: int
    path: Path


class Unit(NamedTuple):
    """One character of a string as it is written: itself, an escape of 2 or 6, or a pair of surrogates of 12.

    char: what it stands for; None where the escape is none of JSON's.
    """

    start: int
    end: int
    char: str | None


class _Level:
    __slots__ = ("is_object", "key", "start", "wants_key")

    def __init__(self, start: int, *, is_object: bool) -> None:
        self.start = start
        self.is_object = is_object
        self.key: str | int = "" if is_object else 0
        self.wants_key = is_object


def scan(text: str) -> list[Token]:
    """The tokens in order of their ends."""
    levels: list[_Level] = []
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        name, start, end = match.lastgroup, match.start(), match.end()
        top = levels[-1] if levels else None
        if name == "string":
            inner = end - 1 if end - start > 1 and _closed(text, start, end) else end
            if top is not None and top.wants_key:
                found.append(Token("key", start + 1, inner, _path(levels[:-1])))
                top.key, top.wants_key = _key(text[start:end]), False
            else:
                found.append(Token("text", start + 1, inner, _path(levels)))
        elif name == "run":
            found.extend(_run(text, start, end, _path(levels)))
        elif name == "open":
            levels.append(_Level(start, is_object=text[start] == "{"))
        elif name == "close" and levels:
            closed = levels.pop()
            found.append(Token("container", closed.start, end, _path(levels)))
        elif name == "comma" and top is not None:
            if isinstance(top.key, int):
                top.key += 1
            else:
                top.wants_key = True
    return found


def _closed(text: str, start: int, end: int) -> bool:
    """Whether a string's last quote is its end and not an escaped one at the end of the text."""
    if text[end - 1] != '"':
        return False
    slashes = 0
    while end - 2 - slashes > start and text[end - 2 - slashes] == "\\":
        slashes += 1
    return slashes % 2 == 0


def _path(levels: list[_Level]) -> Path:
    return tuple(level.key for level in levels[:DEPTH_KEPT])


def _key(quoted: str) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        return quoted


def _run(text: str, start: int, end: int, path: Path) -> Iterator[Token]:
    """What stands outside strings: a number or a word, as far as one can be read, and whatever is glued to it."""
    number = _NUMBER.match(text, start, end)
    word = _WORD.match(text, start, end)
    split = start
    if word is not None:
        split = word.end()
        yield Token("word", start, split, path)
    elif number is not None:
        split = number.end()
        yield Token("number", start, split, path)
    if split < end:
        yield Token("junk", split, end, path)


def units(text: str, start: int, end: int) -> Iterator[Unit]:
    """The characters of a string's inside, as they are written."""
    at = start
    while at < end:
        if text[at] != "\\" or at + 1 >= end:
            yield Unit(at, at + 1, text[at] if text[at] != "\\" else None)
            at += 1
            continue
        code = _code(text, at, end)
        if code is None:
            yield Unit(at, at + 2, _SHORT.get(text[at + 1]))
            at += 2
            continue
        low = _code(text, at + 6, end) if 0xD800 <= code < 0xDC00 else None
        if low is not None and 0xDC00 <= low < 0xE000:
            yield Unit(at, at + 12, chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)))
            at += 12
        else:
            yield Unit(at, at + 6, chr(code))
            at += 6


def _code(text: str, at: int, end: int) -> int | None:
    r"""The number of a \uXXXX at this place, or None where there is none."""
    if at + 6 > end or text[at : at + 2] != "\\u" or not _HEX.fullmatch(text, at + 2, at + 6):
        return None
    return int(text[at + 2 : at + 6], 16)


def written(raw: str, char: str) -> str:
    """A character in the way `raw` was written: as itself, short, or by number. As long as `raw`."""
    if len(raw) == 1:
        return char
    if len(raw) == 2:
        return json.dumps(char)[1:-1] if char != "/" else "\\/"
    if len(raw) == 6:
        return f"\\u{ord(char):04x}"
    rest = ord(char) - 0x10000
    return f"\\u{0xD800 + (rest >> 10):04x}\\u{0xDC00 + (rest & 0x3FF):04x}"
