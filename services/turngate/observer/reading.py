"""From a record of `turns` to what is counted of it, or the reason why it is skipped."""

from __future__ import annotations

from turngate.runtime.records import InputRecord
from turngate.runtime.settings import Settings
from turngate.runtime.triage import triage
from turngate.schemas.codec import decode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.turn import Turn


def read_turn(record: InputRecord, settings: Settings) -> Turn | str:
    """The turn, or a stable reason code. Nobody is told: the topic's answering role writes the dead letter, or moves
    the record to its partition, where it is read and counted.
    """
    found = triage((record,), settings.partitions, "observer")
    for unusable in (*found.skipped, *found.dead):
        return unusable.reason
    try:
        turn = decode(Turn, record.value)
    except (InvalidRecord, UnknownSchema) as error:
        return error.code
    if record.key != conversation_key(turn.tenant, turn.conversation):
        return "key_mismatch"
    return turn if settings.allows_tenant(turn.tenant) else "unknown_tenant"
