"""From a record of `turns` to what is counted of it, or the reason why it is skipped."""

from __future__ import annotations

from turngate.runtime.records import InputRecord
from turngate.runtime.triage import triage
from turngate.schemas.codec import decode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.turn import Turn


def read_turn(record: InputRecord, partitions: int) -> Turn | str:
    """The turn, or a stable reason code. Nobody is told: the topic's answering role writes the dead letter, or moves
    the record to its partition, where it is read and counted.
    """
    found = triage((record,), partitions, "observer")
    for unusable in (*found.skipped, *found.dead):
        return unusable.reason
    try:
        return decode(Turn, record.value)
    except (InvalidRecord, UnknownSchema) as error:
        return error.code
