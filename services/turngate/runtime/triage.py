"""What a step must never see: records no reader can use, whatever its version and settings.

That is decided from the record and the topology alone, so all readers of a topic decide the same. One of them, the
topic's answering role, therefore writes the dead letter or moves the record; the others skip it and count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from turngate.runtime.deadletters import DeadRecord
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.base import NAME_LENGTH_MAX
from turngate.schemas.envelope import MOVED_HEADER
from turngate.topology.desired import HEADROOM_BYTES
from turngate.topology.groups import answering_role
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS

KEY_BYTES_MAX = 2 * NAME_LENGTH_MAX + 1
"""`tenant/conversation`, both ASCII."""
EXTRAS_BYTES_MAX = HEADROOM_BYTES // 2
"""Key and headers of a record that is moved: with the header that says so it must still fit its topic."""
SAME_FOR_ALL = frozenset(
    {
        "null_value", "null_key", "undecodable_key", "invalid_key", "oversized_record", "misrouted", "malformed_json",
        "duplicate_key",
    }
)  # fmt: skip
"""Reasons on which all readers of a topic agree. malformed_json and duplicate_key come from the step: nobody parses a
record twice.
"""


@dataclass(slots=True)
class Triage:
    """A batch sorted: records to step, to re-produce once to the right partition, dead letters, and what another role
    answers for (moved or given to the dead letters there).
    """

    good: list[InputRecord] = field(default_factory=list[InputRecord])
    moved: list[Output] = field(default_factory=list[Output])
    dead: list[DeadRecord] = field(default_factory=list[DeadRecord])
    skipped: list[DeadRecord] = field(default_factory=list[DeadRecord])


def triage(records: Iterable[InputRecord], partitions: int, role: str) -> Triage:
    """Sorts a batch of a role; order is kept."""
    found = Triage()
    for record in records:
        unusable = _unusable(record)
        if unusable is not None:
            found.dead.append(unusable)
            continue
        assert record.key is not None, "unusable otherwise"
        right = partition_of(record.key, partitions)
        if not TOPICS[record.topic].keyed or right == record.partition:
            found.good.append(record)
        else:
            _misrouted(record, right, role, found)
    found.dead, skipped = own_dead(found.dead, role)
    found.skipped += skipped
    return found


def own_dead(dead: Iterable[DeadRecord], role: str) -> tuple[list[DeadRecord], list[DeadRecord]]:
    """(dead letters this role writes, those that the answering role of their topic writes)."""
    own: list[DeadRecord] = []
    others: list[DeadRecord] = []
    for item in dead:
        skips = item.reason in SAME_FOR_ALL and answering_role(item.record.topic) != role
        (others if skips else own).append(item)
    return own, others


def _misrouted(record: InputRecord, right: int, role: str, found: Triage) -> None:
    assert record.key is not None, "unusable otherwise"
    assert record.value is not None, "unusable otherwise"
    extras = len(record.key) + sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    if record.header(MOVED_HEADER) is not None:
        found.dead.append(DeadRecord(record, "misrouted", f"moved once, still not on partition {right}"))
    elif extras > EXTRAS_BYTES_MAX:
        detail = f"cannot be moved to partition {right} with {extras} bytes of key and headers"
        found.dead.append(DeadRecord(record, "oversized_record", detail))
    elif answering_role(record.topic) == role:
        headers = (*record.headers, (MOVED_HEADER, b"1"))
        found.moved.append(Output(record.topic, record.key, record.value, headers, right))
    else:
        found.skipped.append(DeadRecord(record, "misrouted", ""))


def _unusable(record: InputRecord) -> DeadRecord | None:
    if record.value is None:
        return DeadRecord(record, "null_value", "")
    if record.key is None:
        return DeadRecord(record, "null_key", "")
    spec = TOPICS[record.topic]
    if len(record.value) > spec.bytes_max:
        return DeadRecord(record, "oversized_record", f"{len(record.value)} bytes, the limit is {spec.bytes_max}")
    if len(record.key) > KEY_BYTES_MAX:
        return DeadRecord(record, "invalid_key", f"{len(record.key)} bytes, the limit is {KEY_BYTES_MAX}")
    try:
        key = record.key.decode("utf-8")
    except UnicodeDecodeError:
        return DeadRecord(record, "undecodable_key", "")
    tenant, slash, conversation = key.partition("/")
    if spec.keyed and not (tenant and slash and conversation):
        return DeadRecord(record, "invalid_key", "not tenant/conversation")
    return None
