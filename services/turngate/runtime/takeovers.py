"""Counts take-overs without progress, so that a record which kills its worker is found (DESIGN §4 rule 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

CAREFUL_FROM = 3
"""So many take-overs at one position: from then on step record by record."""


@dataclass(frozen=True, slots=True)
class Takeovers:
    """How often one position was taken over, and the record that was being stepped when it was last lost."""

    count: int
    suspect: str | None = None


class TakeoverCounter(Protocol):
    """Kept outside the process, per group and partition. All methods may raise Retryable."""

    async def taken_over(self, group: str, partition: int, position: str) -> Takeovers:
        """Notes a take-over; the count starts again at 1 where `position` differs from the last one."""
        ...

    async def suspect(self, group: str, partition: int, record: str) -> None:
        """In careful mode: `record` (`topic/partition@offset`) is stepped next."""
        ...

    async def progressed(self, group: str, partition: int) -> None:
        """The position moved, or the partition was handed over in good order: forget count and suspect."""
        ...


class LocalTakeoverCounter:
    """In this process's memory: sees errors that drop a partition, not the death of the process."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[str, Takeovers]] = {}

    async def taken_over(self, group: str, partition: int, position: str) -> Takeovers:
        at, seen = self._known.get((group, partition), ("", Takeovers(0)))
        seen = Takeovers(seen.count + 1, seen.suspect) if at == position else Takeovers(1)
        self._known[group, partition] = (position, seen)
        return seen

    async def suspect(self, group: str, partition: int, record: str) -> None:
        at, seen = self._known.get((group, partition), ("", Takeovers(0)))
        self._known[group, partition] = (at, Takeovers(seen.count, record))

    async def progressed(self, group: str, partition: int) -> None:
        self._known.pop((group, partition), None)
