"""A laboratory for the worker runtime: topics of its own, workers in this process, black-box reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, islice

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from turngate.devstack.base import Stack
from turngate.runtime.clock import SystemClock
from turngate.runtime.handlers import PartitionHandler, PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.offsets import GroupOffsets
from turngate.runtime.records import InputRecord, Output, Position, StepResult
from turngate.runtime.settings import Settings
from turngate.runtime.takeovers import TakeoverCounter
from turngate.runtime.worker import Worker
from turngate.topology.groups import ROLES, RoleSpec
from turngate.topology.keys import partition_of
from turngate.topology.provision import apply_topology
from turngate.topology.topics import TOPICS

PARTITIONS = 4
WAIT_SECONDS = 30.0


def key_of(partition: int, number: int = 0) -> bytes:
    """The number-th conversation key that belongs to a partition."""
    keys = (f"acme/c{index}".encode() for index in count())
    return next(islice((key for key in keys if partition_of(key, PARTITIONS) == partition), number, None))


class Echo:
    """Writes one verdict per record, naming the record; `act` may interfere before."""

    def __init__(self, act: Callable[[InputRecord], None] | None = None) -> None:
        self.act = act
        self.starts: list[PartitionStart] = []
        self.steps: list[list[InputRecord]] = []
        self.stopped = 0

    async def start(self, start: PartitionStart) -> None:
        self.starts.append(start)

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        self.steps.append(list(records))
        outputs: list[Output] = []
        for record in records:
            if self.act is not None:
                self.act(record)
            assert record.key is not None
            value = f"{record.topic}/{record.partition}@{record.offset}".encode()
            outputs.append(Output("verdicts", record.key, value))
        return StepResult(outputs)

    async def stop(self) -> None:
        self.stopped += 1


@dataclass
class Lab:
    """One prefix on the broker."""

    stack: Stack
    prefix: str
    role: RoleSpec = field(default_factory=lambda: ROLES["validator"])

    def settings(self, **changes: object) -> Settings:
        values: dict[str, object] = {
            "kafka": self.stack.kafka_bootstrap, "redis": self.stack.redis_url, "topic_prefix": self.prefix,
            "partitions": PARTITIONS, "environment": "dev", "session_timeout_ms": 6_000, "drain_seconds": 5,
        }  # fmt: skip
        return Settings.model_validate(values | changes)

    def full(self, topic: str) -> str:
        return TOPICS[topic].full_name(self.prefix)

    def worker(
        self,
        factory: Callable[[int], PartitionHandler],
        *,
        role: RoleSpec | None = None,
        counter: TakeoverCounter | None = None,
        idle_interval_ms: int | None = None,
        **changes: object,
    ) -> Worker:
        return Worker(
            settings=self.settings(**changes), role=role or self.role, handler_factory=factory, clock=SystemClock(),
            metrics=Metrics(), takeover_counter=counter, idle_interval_ms=idle_interval_ms,
        )  # fmt: skip

    @asynccontextmanager
    async def running(self, worker: Worker) -> AsyncGenerator[Worker]:
        task = asyncio.create_task(worker.run())
        try:
            await until(lambda: worker.ready or task.done())
            if task.done():
                task.result()
            yield worker
        finally:
            worker.request_stop()
            await task

    async def produce(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None, int | None]],
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """(key, value, partition or None for the key's). Raises what the broker refuses with."""
        producer = AIOKafkaProducer(bootstrap_servers=self.stack.kafka_bootstrap, max_request_size=1 << 24)
        await producer.start()
        try:
            sent = []
            for key, value, partition in records:
                if partition is None:
                    partition = partition_of(key or b"", PARTITIONS)
                sent.append(await producer.send(self.full(topic), value, key, partition, headers=list(headers)))
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def read(self, topic: str, isolation: str = "read_committed") -> list[ConsumerRecord[bytes, bytes]]:
        """Everything on a topic now, partition after partition."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.stack.kafka_bootstrap, isolation_level=isolation, enable_auto_commit=False,
            fetch_max_wait_ms=50,
        )  # fmt: skip
        await consumer.start()
        try:
            tps = [TopicPartition(self.full(topic), number) for number in range(PARTITIONS)]
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            ends = await consumer.end_offsets(tps)
            found: list[ConsumerRecord[bytes, bytes]] = []
            deadline = time.monotonic() + WAIT_SECONDS
            while [tp for tp in tps if await consumer.position(tp) < ends[tp]]:
                assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found.extend(records)
            return sorted(found, key=lambda record: (record.partition, record.offset))
        finally:
            await consumer.stop()

    async def values(self, topic: str) -> list[bytes | None]:
        return [record.value for record in await self.read(topic)]

    async def committed(self, topic: str, partition: int, role: RoleSpec | None = None) -> Position:
        offsets = GroupOffsets(self.settings(), (role or self.role).group(self.prefix))
        await offsets.start()
        try:
            tp = TopicPartition(self.full(topic), partition)
            return (await offsets.read([tp]))[tp]
        finally:
            await offsets.stop()


async def until(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture
async def lab(stack: Stack, topic_prefix: str) -> Lab:
    await apply_topology(stack.kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS, environment="dev")
    return Lab(stack, topic_prefix)


@pytest.fixture
def echo() -> type[Echo]:
    return Echo


@pytest.fixture
def wait() -> Callable[..., object]:
    return until


@pytest.fixture
def key_on() -> Callable[..., bytes]:
    return key_of
