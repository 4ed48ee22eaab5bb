"""Time, injected everywhere it is read, so that tests own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: `wall_ms` for what is written down, `boot_ms` for measuring leases and waits."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump."""
        ...

    def boot_ms(self) -> int:
        """Milliseconds since some start; never goes back, and counts while the machine is suspended."""
        ...


class SystemClock:
    """The machine's clocks. Where there is no CLOCK_BOOTTIME, the monotonic clock serves: it stands still
    while a machine is suspended, so there a lease may look younger than it is.
    """

    def __init__(self) -> None:
        self._boot_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(self._boot_id) // 1_000_000


class ManualClock:
    """Stands still until told otherwise."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, boot_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._boot_ms = boot_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def boot_ms(self) -> int:
        return self._boot_ms

    def advance(self, milliseconds: int) -> None:
        """Moves both clocks on."""
        assert milliseconds >= 0, "time does not go back; use set_wall for a wall clock jump"
        self._wall_ms += milliseconds
        self._boot_ms += milliseconds

    def set_wall(self, wall_ms: int) -> None:
        """A wall clock jump, in either direction."""
        self._wall_ms = wall_ms
