"""Topics in memory, with what turngate needs of Kafka: order per partition, offsets that move with the outputs, aborts.

It stands in for the broker in simulations only. Committed readers see a record once its transaction is committed;
uncommitted readers see it at once, also when it is aborted later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from turngate.runtime.records import InputRecord, Output, Position
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS


@dataclass(slots=True)
class StoredRecord:
    """One record of a partition. aborted: its transaction was, so committed readers never see it."""

    record: InputRecord
    aborted: bool = False


@dataclass(slots=True)
class MemoryLog:
    """All topics of a fleet. `now_ms` stamps records; the caller moves it."""

    partitions: int = 1
    now_ms: int = 1_700_000_000_000
    topics: dict[str, list[list[StoredRecord]]] = field(default_factory=dict[str, list[list[StoredRecord]]])
    offsets: dict[tuple[str, str, int], Position] = field(default_factory=dict[tuple[str, str, int], Position])

    def _partition(self, topic: str, partition: int) -> list[StoredRecord]:
        rows = self.topics.setdefault(topic, [[] for _ in range(self.partitions)])
        return rows[partition]

    def append(self, out: Output, *, aborted: bool = False) -> InputRecord:
        """Adds one record; the key decides the partition unless the output names one. Raises KeyError (no topic)."""
        assert out.topic in TOPICS, f"no topic {out.topic}"
        partition = out.partition if out.partition is not None else partition_of(out.key, self.partitions)
        rows = self._partition(out.topic, partition)
        record = InputRecord(out.topic, partition, len(rows), self.now_ms, out.key, out.value, out.headers)
        rows.append(StoredRecord(record, aborted))
        return record

    def read(self, topic: str, partition: int, start: int, *, committed: bool, limit: int = 500) -> list[InputRecord]:
        """Records from an offset on, at most `limit`."""
        rows = self._partition(topic, partition)[start : start + limit]
        return [row.record for row in rows if not (committed and row.aborted)]

    def end(self, topic: str, partition: int) -> int:
        return len(self._partition(topic, partition))

    def all(self, topic: str, *, committed: bool = True) -> list[InputRecord]:
        """Every record of a topic, partition by partition."""
        return [
            record
            for partition in range(self.partitions)
            for record in self.read(topic, partition, 0, committed=committed, limit=10**9)
        ]

    def position(self, group: str, topic: str, partition: int) -> Position:
        return self.offsets.get((group, topic, partition), Position(0))

    def move(self, group: str, topic: str, partition: int, position: Position) -> None:
        self.offsets[(group, topic, partition)] = position
