"""How far a partition may be committed while its orders finish out of order: up to the oldest open one."""

from __future__ import annotations

import heapq


class Watermark:
    """Offsets of one partition during one assignment; they are begun in rising order and finished in any."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._heap: list[int] = []
        self._next = -1
        self._committed = -1

    def begin(self, offset: int) -> None:
        assert offset >= self._next, "a partition is read in order"
        self._open.add(offset)
        heapq.heappush(self._heap, offset)
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """Idempotent."""
        self._open.discard(offset)
        while self._heap and self._heap[0] not in self._open:
            heapq.heappop(self._heap)

    @property
    def open(self) -> int:
        """How many are not finished."""
        return len(self._open)

    @property
    def position(self) -> int:
        """The offset to commit: everything below it is finished; -1 before anything was read."""
        return self._heap[0] if self._heap else self._next

    @property
    def due(self) -> int | None:
        """The position, where it lies beyond what was committed."""
        return self.position if self.position > self._committed else None

    def committed(self, offset: int) -> None:
        self._committed = max(self._committed, offset)
