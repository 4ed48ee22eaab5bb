"""Orders in, answers out: topics of a test's own, executors in this process, and what they wrote."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from turngate.devstack.base import Stack
from turngate.executor import ToolExecutor
from turngate.executor.answers import progress_reply
from turngate.schemas.base import Record
from turngate.schemas.codec import encode
from turngate.schemas.digests import call_idempotency_key, call_key, text_digest
from turngate.schemas.envelope import conversation_key
from turngate.schemas.registry import decode_any
from turngate.schemas.tools import ReplyTo, SideEffects, ToolCancel, ToolOrder, ToolProgress, ToolResult
from turngate.topology.keys import partition_of
from turngate.topology.provision import apply_topology
from turngate.topology.topics import TOPICS

PARTITIONS = 4
WAIT_SECONDS = 60.0
ZERO = "0" * 64
GROUP = "tools"


@dataclass
class Desk:
    """Orders what a ledger would, and reads what it would."""

    stack: Stack
    prefix: str
    answers: list[tuple[int, ToolResult | ToolProgress]] = field(
        default_factory=list[tuple[int, ToolResult | ToolProgress]]
    )
    """(partition, record) of everything on tool-results, as it came."""

    def order(
        self,
        number: int,
        *,
        tool: str = "echo",
        arguments: str = "{}",
        attempt: int = 1,
        side_effects: SideEffects = "read",
        deadline_in_ms: int = 120_000,
        reply_partition: int | None = None,
    ) -> ToolOrder:
        """The order of a call in conversation `c<number>`, answered on a partition that is not its key's."""
        key, conversation = call_key("acme", f"c{number}", 2, "a-2-c1"), f"c{number}"
        home = partition_of(conversation_key("acme", conversation), PARTITIONS)
        return ToolOrder(
            tenant="acme", conversation=conversation, call_key=key, call_id="a-2-c1", tool=tool, revision=2,
            generation=1, attempt=attempt, arguments_digest=text_digest(arguments),
            idempotency_key=call_idempotency_key(key), arguments_raw=arguments, schema_digest=ZERO,
            operation_id=f"op-{number}", deadline_ms=time.time_ns() // 1_000_000 + deadline_in_ms,
            side_effects=side_effects,
            reply_to=ReplyTo(
                topic=self.full("tool-results"),
                partition=(home + 1) % PARTITIONS if reply_partition is None else reply_partition,
            ),
        )  # fmt: skip

    def full(self, topic: str) -> str:
        return TOPICS[topic].full_name(self.prefix)

    def results(self) -> list[ToolResult]:
        return [record for _, record in self.answers if isinstance(record, ToolResult)]

    def result(self, order: ToolOrder) -> ToolResult | None:
        """The first result of an order's call and attempt."""
        named = (order.call_key, order.attempt)
        return next((result for result in self.results() if (result.call_key, result.attempt) == named), None)

    def progress(self, order: ToolOrder) -> list[ToolProgress]:
        return [
            record
            for _, record in self.answers
            if isinstance(record, ToolProgress) and record.call_key == order.call_key
        ]

    async def send(self, *entries: ToolOrder | ToolCancel) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.stack.kafka_bootstrap) as producer:
            for entry in entries:
                key = conversation_key(entry.tenant, entry.conversation)
                await producer.send_and_wait(self.full("tool-calls"), encode(entry), key, partition_of(key, PARTITIONS))

    async def claim(self, order: ToolOrder, executor: str) -> None:
        """What a worker writes that then dies."""
        reply = progress_reply(order, "claimed", 0, executor=executor, source="test")
        async with AIOKafkaProducer(bootstrap_servers=self.stack.kafka_bootstrap) as producer:
            await producer.send_and_wait(reply.to.topic, reply.value, key=reply.key, partition=reply.to.partition)

    async def committed(self) -> dict[int, int]:
        """Partition -> the group's offset on tool-calls; -1 where there is none."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.stack.kafka_bootstrap)
        await admin.start()
        try:
            places = [TopicPartition(self.full("tool-calls"), number) for number in range(PARTITIONS)]
            found = await admin.list_consumer_group_offsets(f"{self.prefix}.executor.{GROUP}", partitions=places)
            return {place.partition: int(found[place].offset) if place in found else -1 for place in places}
        finally:
            await admin.close()

    def executor(self, *, group: str = GROUP, **options: object) -> ToolExecutor:
        return ToolExecutor(
            group=group, kafka=self.stack.kafka_bootstrap, topic_prefix=self.prefix,
            **options,  # type: ignore[arg-type]  # each test knows what it passes
        )  # fmt: skip

    @asynccontextmanager
    async def working(self, executor: ToolExecutor) -> AsyncGenerator[asyncio.Event]:
        """The executor with its partitions. Gives its stop event; waits for its end, and raises what it raised."""
        stop = asyncio.Event()
        task = asyncio.create_task(executor.run(stop))
        ready = asyncio.create_task(executor.ready.wait())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield stop
        finally:
            ready.cancel()
            stop.set()
            async with asyncio.timeout(WAIT_SECONDS):
                await task

    async def follow(self) -> None:
        """Reads tool-results until cancelled."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.stack.kafka_bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            places = [TopicPartition(self.full("tool-results"), number) for number in range(PARTITIONS)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            while True:
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    self.answers += [(place.partition, _answer(record.value)) for record in records]
                await asyncio.sleep(0.02)
        finally:
            await consumer.stop()


def _answer(value: bytes | None) -> ToolResult | ToolProgress:
    found: Record = decode_any(value or b"", TOPICS["tool-results"].schemas)
    assert isinstance(found, ToolResult | ToolProgress)
    return found


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while True:
        met = condition()
        if met if isinstance(met, bool) else await met:
            return
        assert time.monotonic() < deadline, "the condition was not met in time"
        await asyncio.sleep(0.03)


@pytest.fixture
async def desk(stack: Stack, topic_prefix: str) -> AsyncGenerator[Desk]:
    await apply_topology(stack.kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS, environment="dev")
    desk = Desk(stack, topic_prefix)
    following = asyncio.create_task(desk.follow())
    yield desk
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@pytest.fixture
def wait() -> Callable[..., Awaitable[None]]:
    return until
