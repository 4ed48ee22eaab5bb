"""Turns our records into outputs: canonical bytes, the conversation key, CloudEvents headers, a deterministic id."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from turngate.runtime.errors import Poison
from turngate.runtime.records import InputRecord, Output
from turngate.schemas.base import Record
from turngate.schemas.codec import decode, decode_strict, encode
from turngate.schemas.digests import parts_digest
from turngate.schemas.envelope import Headers, cloud_event_headers, conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.topology.topics import TOPICS

R = TypeVar("R", bound=Record)

FOREIGN = frozenset(name for name, spec in TOPICS.items() if {"platform", "operator", "executor"} & set(spec.writers))
"""Topics that programs of others write to."""


def output(
    topic: str,
    record: Record,
    *,
    tenant: str,
    conversation: str,
    event_id: str,
    role: str,
    time_ms: int | None = None,
    headers: Headers = (),
    partition: int | None = None,
) -> Output:
    """One record as it will be produced. The same arguments always give the same bytes and headers."""
    return Output(
        topic=topic,
        key=conversation_key(tenant, conversation),
        value=encode(record),
        headers=cloud_event_headers(record, event_id=event_id, source=role, time_ms=time_ms) + headers,
        partition=partition,
    )


def decoded(kind: type[R], record: InputRecord) -> R:
    """The record's value as `kind`, read strictly where others than the fleet's roles write the topic.

    Raises Poison with the reason a dead letter carries; never quotes the value.
    """
    try:
        return decode_strict(kind, record.value) if record.topic in FOREIGN else decode(kind, record.value)
    except (InvalidRecord, UnknownSchema) as error:
        raise Poison(record, error.code, str(error)) from None


def event_id(*parts: str | int) -> str:
    """A deterministic record id from what caused it."""
    return parts_digest(*parts)[:32]


def source_of(record: InputRecord) -> str:
    """Where a record was read, as scripts store it: a redelivery of the very same record has the same source."""
    return f"{record.topic}/{record.partition}@{record.offset}"


async def by_conversation(
    records: Sequence[InputRecord], handle: Callable[[InputRecord], Awaitable[list[Output]]]
) -> list[Output]:
    """Runs `handle` over a batch: one conversation's records one after the other, conversations side by side.

    Outputs come back in the order of the records. The first error raised by any of them is raised here once all have
    ended; every step is idempotent, so the whole batch may be run again.
    """
    slots: list[list[Output]] = [[] for _ in records]
    lanes: dict[bytes, list[int]] = {}
    for index, record in enumerate(records):
        lanes.setdefault(record.key or b"", []).append(index)

    async def run(indexes: list[int]) -> None:
        for index in indexes:
            slots[index] = await handle(records[index])

    if len(lanes) == 1:
        await run(next(iter(lanes.values())))
    else:
        results = await asyncio.gather(*(run(indexes) for indexes in lanes.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
    return [out for slot in slots for out in slot]
