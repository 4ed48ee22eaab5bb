"""What the demo sees: the topics a platform would read, kept in memory, with conditions to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

from turngate.devstack.errors import StackError
from turngate.schemas.base import Record
from turngate.schemas.codec import encode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.quarantine import Quarantined
from turngate.schemas.registry import RECORDS, decode_any
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

COMMITTED = ("turns", "verdicts", "dispatches", "manifests", "quarantine", "sequences")
UNCOMMITTED = ("session-events", "stream-events")

RawRecord: TypeAlias = "ConsumerRecord[bytes, bytes]"


class Watch:
    """Reads everything from now on; an async context manager. `on_record` is called with each record as it comes."""

    def __init__(self, kafka: str, prefix: str, on_record: Callable[[Record], None] = lambda record: None) -> None:
        self._kafka = kafka
        self._prefix = prefix
        self._on_record = on_record
        self._names = {TOPICS[name].full_name(prefix): name for name in (*COMMITTED, *UNCOMMITTED)}
        self._tasks: list[asyncio.Task[None]] = []
        self._consumers: list[AIOKafkaConsumer] = []
        self._producer: AIOKafkaProducer | None = None
        self._changed = asyncio.Event()
        self.records: list[Record] = []
        self.raw: list[tuple[str, RawRecord]] = []

    async def __aenter__(self) -> Self:
        for topics, isolation in ((COMMITTED, "read_committed"), (UNCOMMITTED, "read_uncommitted")):
            consumer = AIOKafkaConsumer(
                *(TOPICS[name].full_name(self._prefix) for name in topics),
                bootstrap_servers=self._kafka,
                isolation_level=isolation,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_partition_fetch_bytes=16 * 1024 * 1024,
            )
            await consumer.start()
            read_steadily(consumer)
            self._consumers.append(consumer)
            self._tasks.append(asyncio.create_task(self._read(consumer)))
        self._producer = AIOKafkaProducer(bootstrap_servers=self._kafka, enable_idempotence=True)
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for consumer in self._consumers:
            await consumer.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        async for message in consumer:
            topic = self._names[message.topic]
            self.raw.append((topic, message))
            try:
                record = decode_any(message.value, tuple(RECORDS))
            except (InvalidRecord, UnknownSchema):
                continue
            self.records.append(record)
            self._on_record(record)
            self._changed.set()

    async def until(self, what: str, condition: Callable[[], bool], timeout_seconds: float = 45.0) -> None:
        """Waits for a condition on what was read. Raises StackError naming `what`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not condition():
                    self._changed.clear()
                    await asyncio.wait([asyncio.create_task(self._changed.wait())], timeout=0.25)
        except TimeoutError:
            raise StackError(f"did not see within {timeout_seconds:g} s: {what}") from None

    async def send(self, topic: str, record: Record, tenant: str, conversation: str) -> None:
        """Produces as a platform would."""
        assert self._producer is not None
        key = conversation_key(tenant, conversation)
        await self._producer.send_and_wait(TOPICS[topic].full_name(self._prefix), encode(record), key=key)

    async def send_again(self, message: RawRecord) -> None:
        """Produces a record a second time, byte for byte, to the same partition."""
        assert self._producer is not None
        await self._producer.send_and_wait(
            message.topic, message.value, key=message.key, partition=message.partition, headers=list(message.headers)
        )

    def newest(self, topic: str, wanted: Callable[[bytes], bool]) -> RawRecord | None:
        """The record of a topic read last whose value is wanted."""
        return next((raw for name, raw in reversed(self.raw) if name == topic and wanted(raw.value or b"")), None)

    # --- views -----------------------------------------------------------------------------------------------------

    def turns(self, conversation: str) -> list[Turn]:
        found = [r for r in self.records if isinstance(r, Turn) and r.conversation == conversation]
        return sorted(found, key=lambda turn: turn.revision)

    def events(self, conversation: str, *types: str) -> list[SessionEvent]:
        return [
            r
            for r in self.records
            if isinstance(r, SessionEvent) and r.conversation == conversation and (not types or r.type in types)
        ]

    def dispatches(self, conversation: str) -> list[Dispatch]:
        return [r for r in self.records if isinstance(r, Dispatch) and r.conversation == conversation]

    def manifests(self) -> list[DispatchManifest]:
        return [r for r in self.records if isinstance(r, DispatchManifest)]

    def verdicts(self, conversation: str) -> list[Verdict]:
        return [r for r in self.records if isinstance(r, Verdict) and r.conversation == conversation]

    def quarantined(self) -> list[Quarantined]:
        return [r for r in self.records if isinstance(r, Quarantined)]
