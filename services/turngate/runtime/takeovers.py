"""Counts take-overs without progress, so that a record which kills its worker is found (DESIGN §4 rule 6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

CAREFUL_FROM = 3
"""So many take-overs at one position: from then on step record by record."""
OTHERS_WAIT_SECONDS = 5.0
"""Longest wait for a step of another partition that should not run beside this one; then it does."""


@dataclass(frozen=True, slots=True)
class Takeovers:
    """How often one position was taken over, and the record that was being stepped when it was last lost."""

    count: int
    suspect: str | None = None


class TakeoverCounter(Protocol):
    """Kept outside the process, per group and partition. All methods may raise Retryable."""

    async def taken_over(self, group: str, partition: int, position: str) -> Takeovers:
        """Notes a take-over, once there is a record to step.

        The count starts again at 1 where `position` differs from the last one.
        """
        ...

    async def suspect(self, group: str, partition: int, record: str | None) -> None:
        """In careful mode: `record` (`topic/partition@offset`) is stepped next; None: the step is over."""
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

    async def suspect(self, group: str, partition: int, record: str | None) -> None:
        at, seen = self._known.get((group, partition), ("", Takeovers(0)))
        self._known[group, partition] = (at, Takeovers(seen.count, record))

    async def progressed(self, group: str, partition: int) -> None:
        self._known.pop((group, partition), None)


class StepGate:
    """Of one process: steps run side by side, a careful one alone. So only the record that kills it is suspected."""

    def __init__(self) -> None:
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._open = asyncio.Event()
        self._open.set()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[None]:
        """A step beside those of other partitions."""
        await _at_most(self._open)
        self._running += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self._quiet.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """A step during which no other begins, begun when no other runs."""
        async with self._turn:
            self._open.clear()
            try:
                await _at_most(self._quiet)
                yield
            finally:
                self._open.set()


async def _at_most(event: asyncio.Event) -> None:
    if event.is_set():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(OTHERS_WAIT_SECONDS):
            await event.wait()
