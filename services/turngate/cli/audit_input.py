"""Where an audit reads its records: the topics of a cluster, or a folder of JSON lines written from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from pydantic import BaseModel, ValidationError

from turngate.domain.audit import (
    AuditLog,
    Entry,
    ReceiveLine,
    entry_of,
    parse_entry,
    parse_receive_line,
    print_entry,
)
from turngate.schemas.errors import InvalidRecord, Retryable
from turngate.topology.client import ClientOptions
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

FIRST = (
    "session-events", "tool-calls", "turns", "dispatches",
    "manifests", "sequences", "verdicts", "stream-events",
)  # fmt: skip
"""Ends are taken effects first, causes later: of a running fleet every effect that is read has its cause."""

UNCOMMITTED = ("session-events", "stream-events")
"""Topics whose readers do not wait for commits."""

RECORD_TOPICS = tuple(spec.name for spec in TOPICS.values() if spec.schemas)
"""All but the changelogs of tables, whose entries are none of our records."""

T = TypeVar("T")

META = "dump.json"
STALL_SECONDS = 20.0
POLL_MS = 200
FETCH_BYTES = 16 * 1024 * 1024


class InputUnreadable(Retryable):
    """The records to audit cannot be read; the text says which and what to do."""

    code = "input_unreadable"


class _Start(BaseModel):
    topic: str
    partition: int
    offset: int


class _Meta(BaseModel):
    starts: tuple[_Start, ...] = ()


@dataclass(slots=True)
class Collected:
    """Entries as read, before they are put in order."""

    committed: list[Entry] = field(default_factory=list[Entry])
    uncommitted: list[Entry] = field(default_factory=list[Entry])
    starts: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def log(self) -> AuditLog:
        return AuditLog.of(self.committed, self.uncommitted, self.starts)


async def read_cluster(
    kafka: str, prefix: str, topics: Sequence[str] = RECORD_TOPICS, options: ClientOptions | None = None
) -> Collected:
    """The records of these topics up to the ends found now. Raises InputUnreadable.

    options: how to reach the broker beside its address (TLS, SASL).
    """
    client: ClientOptions = {} if options is None else options
    found = Collected()
    ordered = [*(name for name in FIRST if name in topics), *(name for name in topics if name not in FIRST)]
    try:
        ends, starts = await _bounds(kafka, prefix, ordered, client)
        found.starts = {place: offset for place, offset in starts.items() if offset > 0}
        found.committed = await _read(kafka, prefix, ends, starts, "read_committed", client)
        live = {place: end for place, end in ends.items() if place[0] in UNCOMMITTED}
        found.uncommitted = await _read(kafka, prefix, live, starts, "read_uncommitted", client)
    except (KafkaError, OSError) as error:
        raise InputUnreadable(
            f"topics with prefix {prefix} cannot be read at {kafka} ({type(error).__name__}):"
            " check TURNGATE_KAFKA and TURNGATE_TOPIC_PREFIX"
        ) from error
    return found


async def _bounds(
    kafka: str, prefix: str, topics: Sequence[str], client: ClientOptions
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """End (the last stable offset) and start of every partition, by short topic name."""
    ends: dict[tuple[str, int], int] = {}
    starts: dict[tuple[str, int], int] = {}
    counts = await _partition_counts(kafka, client)
    if not any(TOPICS[name].full_name(prefix) in counts for name in topics):
        raise InputUnreadable(f"{kafka} has no topics with prefix {prefix}: check TURNGATE_TOPIC_PREFIX")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, group_id=None, enable_auto_commit=False, isolation_level="read_committed", **client
    )
    await consumer.start()
    try:
        for name in topics:
            full = TOPICS[name].full_name(prefix)
            places = [TopicPartition(full, number) for number in range(counts.get(full, 0))]
            for place, offset in (await consumer.end_offsets(places)).items():
                ends[(name, place.partition)] = int(offset)
            for place, offset in (await consumer.beginning_offsets(places)).items():
                starts[(name, place.partition)] = int(offset)
    finally:
        await consumer.stop()
    return ends, starts


async def _partition_counts(kafka: str, client: ClientOptions) -> dict[str, int]:
    """Partitions of every topic of the cluster. A consumer that subscribes to nothing does not learn them."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka, **client)
    await admin.start()
    try:
        return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
    finally:
        await admin.close()


async def _read(
    kafka: str,
    prefix: str,
    ends: Mapping[tuple[str, int], int],
    starts: Mapping[tuple[str, int], int],
    isolation: str,
    client: ClientOptions,
) -> list[Entry]:
    """All records of the partitions below their ends."""
    names = {
        TopicPartition(TOPICS[name].full_name(prefix), partition): (name, partition)
        for (name, partition), end in ends.items()
        if end > starts.get((name, partition), 0)
    }
    entries: list[Entry] = []
    if not names:
        return entries
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, group_id=None, enable_auto_commit=False, isolation_level=isolation,
        auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES, **client,
    )  # fmt: skip
    await consumer.start()
    read_steadily(consumer)
    try:
        consumer.assign(list(names))
        for place, key in names.items():
            consumer.seek(place, starts.get(key, 0))
        open_places = set(names)
        moved = time.monotonic()
        while open_places:
            batches = await consumer.getmany(*open_places, timeout_ms=POLL_MS)
            for place, rows in batches.items():
                name, partition = names[place]
                entries += [
                    entry_of(name, partition, row.offset, row.timestamp, row.key, row.value)
                    for row in rows
                    if row.offset < ends[(name, partition)]
                ]
            # A position passes control records too; offsets of records alone would never reach the end.
            done = {place for place in open_places if await consumer.position(place) >= ends[names[place]]}
            open_places -= done
            if batches or done:
                moved = time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                stuck = sorted({names[place][0] for place in open_places})
                raise InputUnreadable(f"no progress on {', '.join(stuck)} for {STALL_SECONDS:.0f} s: is the broker up?")
    finally:
        await consumer.stop()
    return entries


def read_dump(folder: Path) -> Collected:
    """The records of a folder that write_dump wrote. Raises InputUnreadable."""
    found = Collected()
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
    if not files:
        raise InputUnreadable(f"{folder} holds no .jsonl files: write some with `turngate audit --write-dump`")
    for file in files:
        live = file.stem.endswith(".uncommitted")
        (found.uncommitted if live else found.committed).extend(_lines(file, parse_entry))
    meta = folder / META
    if meta.exists():
        found.starts = _starts(meta)
    return found


def write_dump(folder: Path, found: Collected) -> None:
    """One file for each topic, plus what uncommitted readers saw, plus the offsets that retention left."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, entries in (("", found.committed), (".uncommitted", found.uncommitted)):
        by_topic: dict[str, list[Entry]] = {}
        for entry in entries:
            by_topic.setdefault(entry.topic, []).append(entry)
        for topic, group in by_topic.items():
            ordered = sorted(group, key=lambda entry: (entry.partition, entry.offset))
            data = b"".join(print_entry(entry) + b"\n" for entry in ordered)
            (folder / f"{topic}{suffix}.jsonl").write_bytes(data)
    starts = [{"topic": topic, "partition": number, "offset": at} for (topic, number), at in found.starts.items()]
    (folder / META).write_bytes(orjson.dumps({"starts": starts}) + b"\n")


def read_receive_log(file: Path) -> list[ReceiveLine]:
    """The lines of a receive log; a last line cut short by a crash is left out. Raises InputUnreadable."""
    if not file.is_file():
        raise InputUnreadable(f"{file} is no file")
    numbers = iter(range(1, 1 << 62))
    return list(_lines(file, lambda line: parse_receive_line(line, next(numbers)), torn=True))


def _lines(file: Path, parse: Callable[[bytes], T], *, torn: bool = False) -> Iterator[T]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputUnreadable(f"{file} cannot be read ({type(error).__name__})") from error
    lines = data.split(b"\n")
    if lines[-1] and torn:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield parse(line)
        except InvalidRecord as error:
            raise InputUnreadable(f"{file} line {number}: {error}") from None


def _starts(meta: Path) -> dict[tuple[str, int], int]:
    try:
        plain = _Meta.model_validate_json(meta.read_bytes())
    except (OSError, ValidationError):
        raise InputUnreadable(f"{meta} is not what write_dump writes") from None
    return {(start.topic, start.partition): start.offset for start in plain.starts}
