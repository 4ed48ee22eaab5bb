"""Puts the events of one relay into order by seq, once each, inside a bounded window."""

from __future__ import annotations

from collections.abc import Sequence


class Sequencer:
    """Orders and deduplicates. The first copy of a seq wins; what lies beyond the window is not kept (a gap
    stays).

    window_events: how far ahead of the next expected seq an event may lie and still be kept.
    window_characters: how much text may wait behind a gap.
    """

    __slots__ = ("_characters", "_pending", "_room", "_window", "duplicates", "next_seq", "overflowed")

    def __init__(self, window_events: int, window_characters: int) -> None:
        self._window = window_events
        self._room = window_characters
        self._characters = 0
        self._pending: dict[int, str] = {}
        self.next_seq = 0
        self.duplicates = 0
        self.overflowed = False

    def accept(self, first_seq: int, events: Sequence[str]) -> Sequence[str]:
        """The events that are next in order now, possibly none. Raises ValueError for a negative seq."""
        if first_seq < 0:
            raise ValueError("first_seq must not be negative")
        if first_seq == self.next_seq and not self._pending:
            self.next_seq += len(events)
            return events
        for seq, raw in enumerate(events, first_seq):
            if seq < self.next_seq or seq in self._pending:
                self.duplicates += 1
            elif seq > self.next_seq and not self._has_room(seq, raw):
                self.overflowed = True
            else:
                self._pending[seq] = raw
                self._characters += len(raw)
        return self._ready()

    def _has_room(self, seq: int, raw: str) -> bool:
        return seq < self.next_seq + self._window and self._characters + len(raw) <= self._room

    def _ready(self) -> list[str]:
        ready: list[str] = []
        while self.next_seq in self._pending:
            raw = self._pending.pop(self.next_seq)
            self._characters -= len(raw)
            ready.append(raw)
            self.next_seq += 1
        return ready

    def leftovers(self) -> list[tuple[int, str]]:
        """What lies behind a gap, in order. Not empty at the end means that events are missing."""
        return sorted(self._pending.items())

    def is_whole(self, count: int | None) -> bool:
        """Whether every event is here: no gap, and as many as the relay's end says it sent."""
        return not self._pending and not self.overflowed and (count is None or count == self.next_seq)
