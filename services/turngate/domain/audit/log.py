"""What the audit reads: records of topics with their places, and the lines of a receive log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from turngate.schemas.base import Record
from turngate.schemas.codec import decode, schema_name
from turngate.schemas.errors import TurngateError
from turngate.schemas.registry import RECORDS

R = TypeVar("R", bound=Record)

Place = tuple[str, int, int]
"""Short topic name, partition, offset."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record at its place. `topic` is the short name (`turns`); `time_ms` the record's Kafka timestamp.

    record is None where the value is no record of a known schema; `problem` then says why, by code.
    """

    topic: str
    partition: int
    offset: int
    time_ms: int
    key: str | None
    value: bytes | None
    record: Record | None
    problem: str | None = None

    @property
    def place(self) -> Place:
        return (self.topic, self.partition, self.offset)

    @property
    def body(self) -> tuple[str, str | None, bytes | None]:
        """What a record keeps when it is moved to the partition of its key."""
        return (self.topic, self.key, self.value)


@dataclass(frozen=True, slots=True)
class ReceiveLine:
    """One request as the provider's side received it. `number` is its line in the log, from 1.

    operation, generation: None where the request did not name them.
    """

    number: int
    time_ms: int
    endpoint: str
    method: str
    path: str
    body_sha256: str
    request_digest: str
    idempotency_key: str | None
    operation: str | None
    generation: int | None
    length: int


def entry_of(
    topic: str, partition: int, offset: int, time_ms: int, key: bytes | str | None, value: bytes | None
) -> Entry:
    """An entry from what a consumer hands out; a value that is no record of ours is kept with its problem."""
    text_key = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
    try:
        kind = RECORDS.get(schema_name(value))
        if kind is None:
            return Entry(topic, partition, offset, time_ms, text_key, value, None, "unknown_schema")
        return Entry(topic, partition, offset, time_ms, text_key, value, decode(kind, value))
    except TurngateError as error:
        return Entry(topic, partition, offset, time_ms, text_key, value, None, error.code)


@dataclass(frozen=True, slots=True)
class AuditLog:
    """All records under audit.

    topics: short name -> entries as a read_committed consumer sees them, each partition in offset order.
    uncommitted: the same for topics whose readers do not wait for commits (session-events, stream-events).
    starts: first offset still kept, for partitions whose beginning retention has removed.
    """

    topics: Mapping[str, tuple[Entry, ...]]
    uncommitted: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict[str, tuple[Entry, ...]])
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        uncommitted: Iterable[Entry] = (),
        starts: Mapping[tuple[str, int], int] | None = None,
    ) -> AuditLog:
        """A log from entries in any order."""
        cut = {place: offset for place, offset in (starts or {}).items() if offset > 0}
        return cls(_grouped(entries), _grouped(uncommitted), cut)

    def read(self, topic: str, kind: type[R], *, uncommitted: bool = False) -> Iterator[tuple[Entry, R]]:
        """All records of one kind on a topic. Where there is no uncommitted view the committed one serves."""
        entries = self.topics.get(topic, ())
        if uncommitted:
            entries = self.uncommitted.get(topic, entries)
        for entry in entries:
            if isinstance(entry.record, kind):
                yield entry, entry.record

    def entries(self) -> Iterator[Entry]:
        """Every committed entry."""
        for entries in self.topics.values():
            yield from entries

    def without(self, places: Collection[Place]) -> AuditLog:
        """The log without the records at these places."""

        def rest(topics: Mapping[str, tuple[Entry, ...]]) -> dict[str, tuple[Entry, ...]]:
            gone = {topic for topic, _, _ in places}
            return {
                topic: tuple(entry for entry in entries if entry.place not in places) if topic in gone else entries
                for topic, entries in topics.items()
            }

        return AuditLog(rest(self.topics), rest(self.uncommitted), self.starts)

    def cut(self, topic: str, partition: int | None) -> bool:
        """Whether retention has removed records of the topic (in any partition where it is None)."""
        if partition is None:
            return any(name == topic for name, _ in self.starts)
        return (topic, partition) in self.starts


def _grouped(entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.topic, []).append(entry)
    return {
        topic: tuple(sorted(group, key=lambda entry: (entry.partition, entry.offset)))
        for topic, group in groups.items()
    }
