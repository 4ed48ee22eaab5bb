"""Placeholders of the same length, in characters and in bytes of UTF-8."""

from __future__ import annotations

import math
from typing import NamedTuple


class Letters(NamedTuple):
    """A placeholder for each size of a character: one byte of UTF-8, two, three, four; and a digit."""

    one: str
    two: str
    three: str
    four: str
    digit: str


PLAIN = Letters("x", "\u00f8", "\u4e00", "\U0001d465", "1")
OTHER = Letters("y", "\u00f0", "\u4e01", "\U0001d466", "2")
"""For a value that must stay unequal to the one it is compared with."""

_KEY_BASE = 20
_KEY_LETTERS = Letters("g", "\u0430", "\u4e00", "\U0001d44e", "")
"""The first of 20 that follow one another. None is a hexadecimal digit: a broken escape would become a sound one."""

_TELLING = 4
"""Characters from which on a key tells something, so that it may not by chance be its own placeholder."""

_WRITTEN_SHORT = frozenset('"\\/')


def _size(char: str) -> int:
    """Bytes of UTF-8; 5 and 6 for half a surrogate pair, 0 for what cannot be exchanged: a control character, or one
    that has an escape of its own."""
    code = ord(char)
    if code < 0x20 or char in _WRITTEN_SHORT:
        return 0
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    if 0xD800 <= code < 0xE000:
        return 5 if code < 0xDC00 else 6
    return 3 if code < 0x10000 else 4


def masked(text: str, letters: Letters) -> str:
    """Every character by its size alone, so pieces of a text give pieces of its placeholder.

    Quotes, backslashes and control characters become line feeds: they too are written in two characters. A slash
    stays, because it is written in one or two.
    """
    return "".join(_masked(char, letters) for char in text)


def _masked(char: str, letters: Letters) -> str:
    size = _size(char)
    if size == 0:
        return char if char == "/" else "\n"
    if size > 4:
        high, low = _halves(letters.four)
        return high if size == 5 else low
    return letters[size - 1]


def masked_junk(text: str, letters: Letters) -> str:
    """What stands outside strings and is neither number nor word: it stays as wrong as it was."""
    return "".join(_masked(char, letters) if _size(char) else char for char in text)


def masked_number(text: str, letters: Letters) -> str:
    """Every digit but 0 exchanged: what is whole, zero, negative or wrongly written stays so, and what is finite.

    The exponent is kept. A number too large for a double is kept where its placeholder would not be.
    """
    mantissa, exponent = text, ""
    for mark in ("e", "E"):
        head, found, tail = text.partition(mark)
        if found:
            mantissa, exponent = head, found + tail
    new = "".join(letters.digit if char in "123456789" else char for char in mantissa) + exponent
    return text if _finite(text) != _finite(new) else new


def _finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return True


def _halves(char: str) -> tuple[str, str]:
    rest = ord(char) - 0x10000
    return chr(0xD800 + (rest >> 10)), chr(0xDC00 + (rest & 0x3FF))


class Names:
    """Placeholders for keys: the same for the same key, another for another, none that a schema names."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken
        self._given: dict[str, str] = {}
        self._counts: dict[tuple[int, ...], int] = {}

    def placeholder(self, key: str) -> str:
        """As long as the key. A key that cannot get one of its own, because it is too short, stays."""
        found = self._given.get(key)
        if found is None:
            shape = tuple(_size(char) for char in key)
            room = _KEY_BASE ** sum(size > 0 for size in shape[:64])
            found = key
            while self._counts.get(shape, 0) < room:
                number = self._counts[shape] = self._counts.get(shape, 0) + 1
                candidate = _numbered(key, shape, number - 1)
                if candidate not in self._taken and (candidate != key or len(key) < _TELLING):
                    found = candidate
                    break
            self._given[key] = found
        return found


def _numbered(key: str, shape: tuple[int, ...], number: int) -> str:
    """The number in letters, the lowest place first; characters that cannot be exchanged stay."""
    out: list[str] = []
    for char, size in zip(key, shape, strict=True):
        if size == 0:
            out.append(char)
            continue
        number, place = divmod(number, _KEY_BASE)
        if size > 4:
            out.append(_halves(chr(ord(_KEY_LETTERS.four) + place))[size - 5])
        else:
            out.append(chr(ord(_KEY_LETTERS[size - 1]) + place))
    return "".join(out)
