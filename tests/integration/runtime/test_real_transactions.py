"""What only Apache Kafka does with transactions: limits, aborts of hanging ones, the fence of a zombie."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from turngate.runtime.errors import LostFence
from turngate.runtime.producer import TransactionalProducer
from turngate.runtime.records import Output, Position
from turngate.topology.groups import ROLES

TIMEOUT_MS = 5_000
ABORT_SCAN_MS = 1_000
"""As the broker of these tests is set: how often it looks for transactions beyond their timeout."""
SLACK_MS = 2_500


@pytest.mark.real
async def test_a_hanging_transaction_delays_readers_by_its_timeout_and_one_scan(lab: Any, key_on: Any) -> None:
    topic, key = lab.full("verdicts"), key_on(1)
    place = TopicPartition(topic, 1)
    dead = AIOKafkaProducer(
        bootstrap_servers=lab.stack.kafka_bootstrap, transactional_id=f"{lab.prefix}dead",
        transaction_timeout_ms=TIMEOUT_MS,
    )  # fmt: skip
    await dead.start()
    await dead.begin_transaction()
    began = time.monotonic()
    await dead.send_and_wait(topic, b"never committed", key, 1)
    try:
        await lab.produce("verdicts", [(key, b"behind it", 1)])
        consumer = AIOKafkaConsumer(bootstrap_servers=lab.stack.kafka_bootstrap, isolation_level="read_committed")
        await consumer.start()
        try:
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            async with asyncio.timeout(60):
                record = await consumer.getone(place)
        finally:
            await consumer.stop()
        waited_ms = (time.monotonic() - began) * 1000
        print(f"a committed reader waited {waited_ms:.0f} ms behind a transaction of {TIMEOUT_MS} ms")
        assert record.value == b"behind it"
        assert TIMEOUT_MS * 0.8 < waited_ms < TIMEOUT_MS + ABORT_SCAN_MS + SLACK_MS
    finally:
        await asyncio.gather(dead.stop(), return_exceptions=True)


@pytest.mark.real
async def test_the_broker_refuses_longer_metadata_than_we_ever_write(lab: Any) -> None:
    group = ROLES["validator"].group(lab.prefix)
    place = TopicPartition(lab.full("turn-requests"), 1)
    answers = {}
    for length in (1024, 4097):
        producer = AIOKafkaProducer(
            bootstrap_servers=lab.stack.kafka_bootstrap, transactional_id=f"{lab.prefix}long{length}"
        )
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({place: OffsetAndMetadata(0, "1" * length)}, group)
            await producer.commit_transaction()
            answers[length] = "taken"
        except KafkaError:
            answers[length] = "refused"
        finally:
            await asyncio.gather(producer.stop(), return_exceptions=True)
    assert answers == {1024: "taken", 4097: "refused"}


@pytest.mark.kafka
async def test_what_a_zombie_had_open_does_not_land(lab: Any, key_on: Any) -> None:
    """A transaction that is open when a successor takes the id over: neither its records nor its offsets count."""
    group, place = ROLES["validator"].group(lab.prefix), TopicPartition(lab.full("turn-requests"), 1)
    identity = ROLES["validator"].transactional_id(lab.prefix, 1)
    zombie, successor = (TransactionalProducer(lab.settings(), identity) for _ in range(2))
    await zombie.start()
    await zombie.stage([Output("verdicts", key_on(1), b"the zombie's")])
    await successor.start()
    try:
        assert successor.term > zombie.term
        with pytest.raises(LostFence):
            await zombie.commit(group, {place: Position(7)})
        await successor.stage([Output("verdicts", key_on(1), b"the successor's")])
        await successor.commit(group, {place: Position(3)})
    finally:
        await zombie.stop()
        await successor.stop()
    assert await lab.values("verdicts") == [b"the successor's"]
    assert (await lab.committed("turn-requests", 1)).offset == 3
