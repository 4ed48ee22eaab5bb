"""Where a partition number stands on each of its inputs: read, stepped, committed. Pure bookkeeping."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from turngate.runtime.records import InputRecord, Position

SAMPLE_MS = 1_000
"""Resolution at which record times are remembered, so that a long wait costs little memory."""


@dataclass(slots=True)
class InputProgress:
    """One input. tail: offset behind the last record read for stepping; stepped: highest offset a step has
    taken without error, -1 before any; claimed: the position the handler last named itself, if ever.
    """

    committed: Position
    tail: int
    stepped: int = -1
    claimed: Position | None = None
    times: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    def read(self, record: InputRecord) -> None:
        self.tail = max(self.tail, record.offset + 1)
        if not self.times or record.timestamp_ms >= self.times[-1][1] + SAMPLE_MS:
            self.times.append((record.offset, record.timestamp_ms))

    def next_position(self) -> Position:
        """What to commit now.

        A handler that names positions (a watermark) is not overruled, except over what it never saw: beyond
        the last record it stepped there are only records that were moved or dead-lettered. Never goes back.
        """
        base = self.claimed
        if base is None and (self.stepped >= 0 or not self.committed.metadata):
            base = Position(self.tail)
        if base is None:
            base = self.committed
        offset = max(base.offset, self.committed.offset)
        if offset > self.stepped:
            offset = max(offset, self.tail)
        return Position(offset, base.metadata)

    def commit(self, position: Position) -> None:
        self.committed = position
        while len(self.times) > 1 and self.times[1][0] < position.offset:
            self.times.popleft()
        if position.offset >= self.tail:
            self.times.clear()

    def age_ms(self, now_ms: int) -> int:
        """Age of the oldest record read and not committed; 0 where there is none."""
        return max(0, now_ms - self.times[0][1]) if self.times else 0


class Progress:
    """All inputs of one partition number, by logical topic name."""

    def __init__(self, committed: Mapping[str, Position]) -> None:
        self.inputs = {name: InputProgress(at, at.offset) for name, at in committed.items()}

    def read(self, records: Iterable[InputRecord]) -> None:
        """The batch is about to be stepped."""
        for record in records:
            self.inputs[record.topic].read(record)

    def stepped(self, records: Iterable[InputRecord]) -> None:
        """These were taken by a step without error."""
        for record in records:
            at = self.inputs[record.topic]
            at.stepped = max(at.stepped, record.offset)

    def claim(self, positions: Mapping[str, Position]) -> None:
        """The handler names positions itself."""
        for name, position in positions.items():
            self.inputs[name].claimed = position

    def moved(self) -> dict[str, Position]:
        """What has to be committed: only inputs whose position changed."""
        wanted = {name: at.next_position() for name, at in self.inputs.items()}
        return {name: position for name, position in wanted.items() if position != self.inputs[name].committed}

    def commit(self, positions: Mapping[str, Position]) -> None:
        for name, position in positions.items():
            self.inputs[name].commit(position)

    def committed(self) -> dict[str, Position]:
        return {name: at.committed for name, at in self.inputs.items()}
