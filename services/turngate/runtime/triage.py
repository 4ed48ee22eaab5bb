"""What a step must never see: null values, unusable keys, and records on a partition that is not their key's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from turngate.runtime.deadletters import DeadRecord
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.envelope import MOVED_HEADER
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS


@dataclass(slots=True)
class Triage:
    """A batch sorted: records to step, records to re-produce once to the right partition, dead letters."""

    good: list[InputRecord] = field(default_factory=list[InputRecord])
    moved: list[Output] = field(default_factory=list[Output])
    dead: list[DeadRecord] = field(default_factory=list[DeadRecord])


def triage(records: Iterable[InputRecord], partitions: int) -> Triage:
    """Sorts a batch; order is kept."""
    found = Triage()
    for record in records:
        reason = _unusable(record)
        if reason is not None:
            found.dead.append(DeadRecord(record, reason, ""))
            continue
        assert record.key is not None, "unusable otherwise"
        assert record.value is not None, "unusable otherwise"
        right = partition_of(record.key, partitions)
        if not TOPICS[record.topic].keyed or right == record.partition:
            found.good.append(record)
        elif record.header(MOVED_HEADER) is not None:
            found.dead.append(DeadRecord(record, "misrouted", f"moved once, still not on partition {right}"))
        else:
            headers = (*record.headers, (MOVED_HEADER, b"1"))
            found.moved.append(Output(record.topic, record.key, record.value, headers, right))
    return found


def _unusable(record: InputRecord) -> str | None:
    if record.value is None:
        return "null_value"
    if record.key is None:
        return "null_key"
    try:
        key = record.key.decode("utf-8")
    except UnicodeDecodeError:
        return "undecodable_key"
    tenant, slash, conversation = key.partition("/")
    if TOPICS[record.topic].keyed and not (tenant and slash and conversation):
        return "invalid_key"
    return None
