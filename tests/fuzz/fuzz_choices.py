"""Decisions drawn from the bytes of one fuzz input, so that a fuzzer that changes bytes changes decisions; and the
error of an input that breaks something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Broken(AssertionError):
    """What must hold does not. The message never quotes the input."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


class Choices:
    """Reads an input from its start; what lies beyond its end is zero, so every input is one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def spent(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, bound: int) -> int:
        """0 <= number < bound; of one byte where that is enough."""
        return (self.byte() if bound <= 256 else self.byte() << 8 | self.byte()) % bound

    def flag(self) -> bool:
        return self.byte() & 1 == 1

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def rest(self) -> bytes:
        found = self._data[self._at :]
        self._at = len(self._data)
        return found

    def cuts(self, length: int, most: int = 8) -> list[int]:
        """Places that split something of this length, with both ends."""
        inner = {self.below(length + 1) for _ in range(self.below(most))}
        return sorted({0, length} | inner)
