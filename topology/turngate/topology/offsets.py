"""First offsets of the role groups: which are missing, which may be set, and setting them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, KafkaError

from turngate.schemas.errors import ConfigurationError, Retryable
from turngate.topology.broker import PAUSE_S, WAIT_S
from turngate.topology.client import ClientOptions
from turngate.topology.desired import Partition, TopicState, group_inputs
from turngate.topology.groups import ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOffset:
    """A first offset of a group: where it begins to read a partition."""

    group: str
    topic: str
    partition: int
    offset: int


def partitions_of(topics: Iterable[str], states: Mapping[str, TopicState]) -> tuple[Partition, ...]:
    return tuple((name, number) for name in topics if name in states for number in range(states[name].partitions))


async def uncommitted_of(admin: AIOKafkaAdminClient, group: str, inputs: tuple[Partition, ...]) -> frozenset[Partition]:
    """The inputs without a committed offset. Waits out a coordinator that is only starting."""
    if not inputs:
        return frozenset()
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    known = await admin.list_consumer_group_offsets(
                        group, partitions=[TopicPartition(topic, number) for topic, number in inputs]
                    )
                except KafkaError as error:
                    if not error.retriable:
                        raise ConfigurationError(
                            f"offsets of {group} cannot be read: {type(error).__name__}"
                        ) from error
                    known = {}
                # A coordinator that is still loading answers without partitions: that is no answer, not
                # "none".
                if len(known) == len(inputs):
                    break
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Retryable(f"the coordinator of {group} does not answer") from None
    return frozenset((at.topic, at.partition) for at, entry in known.items() if entry.offset < 0)


async def missing_offsets(
    admin: AIOKafkaAdminClient,
    bootstrap: str,
    options: ClientOptions,
    states: Mapping[str, TopicState],
    prefix: str,
    *,
    fresh: frozenset[str] = frozenset(),
    adopt: bool = False,
) -> tuple[tuple[FirstOffset, ...], dict[str, frozenset[Partition]]]:
    """First offsets that may be committed, and per group the partitions where that is not for us to
    decide.
    """
    inputs = {role.group(prefix): partitions_of(group_inputs(role, prefix), states) for role in ROLES.values()}
    absent = {group: await uncommitted_of(admin, group, wanted) for group, wanted in inputs.items()}
    every = frozenset().union(*absent.values())
    if not every:
        return (), {}
    begins, ends = await _ranges(bootstrap, options, every)
    todo: list[FirstOffset] = []
    held: dict[str, frozenset[Partition]] = {}
    for group, missing in absent.items():
        free = {part for part in missing if adopt or part[0] in fresh or ends[part] == 0}
        todo.extend(
            FirstOffset(group=group, topic=topic, partition=number, offset=begins[topic, number])
            for topic, number in sorted(free)
        )
        if missing - free:
            held[group] = missing - free
    return tuple(todo), held


async def commit_first_offsets(
    admin: AIOKafkaAdminClient,
    bootstrap: str,
    options: ClientOptions,
    states: Mapping[str, TopicState],
    *,
    prefix: str,
    fresh: frozenset[str],
    adopt: bool,
) -> tuple[tuple[FirstOffset, ...], dict[str, frozenset[Partition]]]:
    todo, held = await missing_offsets(admin, bootstrap, options, states, prefix, fresh=fresh, adopt=adopt)
    groups: dict[str, list[FirstOffset]] = {}
    for first in todo:
        groups.setdefault(first.group, []).append(first)
    done = await asyncio.gather(
        *(_commit(admin, bootstrap, options, group, firsts) for group, firsts in groups.items())
    )
    for group, left in zip(groups, done, strict=True):
        if left:
            held[group] = held.get(group, frozenset()) | left
    committed = tuple(
        first for first in todo if (first.topic, first.partition) not in held.get(first.group, frozenset())
    )
    return committed, held


async def _commit(
    admin: AIOKafkaAdminClient, bootstrap: str, options: ClientOptions, group: str, firsts: list[FirstOffset]
) -> frozenset[Partition]:
    """Commit as a client outside the group, which a broker allows only while the group has no members.

    So a role that is running can never be thrown back. Returns what could not be committed and still is not.
    """
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, **options)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(first.topic, first.partition) for first in firsts])
        await consumer.commit({TopicPartition(first.topic, first.partition): first.offset for first in firsts})
    except CommitFailedError:
        return await uncommitted_of(admin, group, tuple((first.topic, first.partition) for first in firsts))
    finally:
        await consumer.stop()
    return frozenset()


async def _ranges(
    bootstrap: str, options: ClientOptions, partitions: Iterable[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Beginning and end offsets. An end of 0 means that nothing was ever written, not even an aborted
    record.
    """
    wanted = [TopicPartition(topic, number) for topic, number in sorted(partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **options)
    await consumer.start()
    try:
        begins = await consumer.beginning_offsets(wanted)
        ends = await consumer.end_offsets(wanted)
    finally:
        await consumer.stop()
    return (
        {(at.topic, at.partition): offset for at, offset in begins.items()},
        {(at.topic, at.partition): offset for at, offset in ends.items()},
    )
