"""What goes in and out of a worker step: plain values, no client types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One record as it was read. `topic` is the logical name ("turns"); timestamp_ms is the broker's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def header(self, name: str) -> bytes | None:
        """The value of the first header of that name."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Output:
    """One record to produce. `topic` is the logical name; without `partition` the key decides."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A committed offset: the next record to read, and up to 1 KB of metadata (DESIGN §4 rule 5)."""

    offset: int
    metadata: str = ""


def _no_outputs() -> list[Output]:
    return []


def _no_callbacks() -> list[Callable[[], None]]:
    return []


@dataclass(slots=True)
class StepResult:
    """What a step wants done, all in one transaction with the offsets.

    positions: per logical input topic, instead of "the offset behind the last record given". after_commit:
    called once the transaction is acknowledged, and never otherwise. hold: nothing here is awaited by a
    reader of committed records (previews), so the transaction may stay open for more, up to 100 ms. ahead: the next
    batch may be stepped while this one's transaction is being committed; it must not rest on the commit.
    """

    outputs: list[Output] = field(default_factory=_no_outputs)
    positions: dict[str, Position] | None = None
    after_commit: list[Callable[[], None]] = field(default_factory=_no_callbacks)
    hold: bool = False
    ahead: bool = False
