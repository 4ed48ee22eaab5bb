"""Reading a partition of kept topics whole, and taking over transactional ids: what a reconcile needs of Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from turngate.runtime.records import InputRecord
from turngate.runtime.settings import Settings
from turngate.schemas.errors import Retryable
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

POLL_MS = 200
STALLED_POLLS_MAX = 50


class KafkaUnavailable(Retryable):
    """Kafka does not answer, or not yet; the same step is tried again."""

    code = "kafka_unavailable"


class KafkaLogReader:
    """Reads committed records without a group; one consumer, one reader at a time."""

    def __init__(self, settings: Settings, prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix
        self._consumer: AIOKafkaConsumer | None = None
        self._lock = asyncio.Lock()

    async def _started(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._settings.kafka,
                group_id=None,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                max_partition_fetch_bytes=16 * 1024 * 1024,
                **self._settings.kafka_client_options(),
            )
            await consumer.start()
            read_steadily(consumer)
            self._consumer = consumer
        return self._consumer

    async def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await consumer.stop()

    async def end_offsets(self, partition: int, topics: Sequence[str]) -> dict[str, int]:
        """The last stable offset of each topic's partition. Raises KafkaUnavailable."""
        names = {TopicPartition(TOPICS[topic].full_name(self._prefix), partition): topic for topic in topics}
        try:
            async with self._lock:
                consumer = await self._started()
                ends = await consumer.end_offsets(list(names))
        except KafkaError as error:
            raise KafkaUnavailable("Kafka does not tell the end offsets") from error
        return {names[place]: int(offset) for place, offset in ends.items()}

    async def read(self, topic: str, partition: int, start: int, end: int) -> AsyncIterator[InputRecord]:
        """Every committed record with start <= offset < end. Raises KafkaUnavailable."""
        if start >= end:
            return
        place = TopicPartition(TOPICS[topic].full_name(self._prefix), partition)
        async with self._lock:
            try:
                consumer = await self._started()
                consumer.assign([place])
                earliest = (await consumer.beginning_offsets([place]))[place]
                consumer.seek(place, max(start, earliest))
                stalled = 0
                while await consumer.position(place) < end:
                    batches = await consumer.getmany(place, timeout_ms=POLL_MS)
                    rows = batches.get(place, [])
                    stalled = 0 if rows else stalled + 1
                    if stalled > STALLED_POLLS_MAX:
                        raise KafkaUnavailable(f"{topic} cannot be read to its end")
                    for row in rows:
                        if row.offset < end:
                            yield InputRecord(
                                topic=topic,
                                partition=partition,
                                offset=row.offset,
                                timestamp_ms=row.timestamp,
                                key=row.key,
                                value=row.value,
                                headers=tuple(row.headers),
                            )
            except KafkaError as error:
                raise KafkaUnavailable(f"{topic} cannot be read") from error
            finally:
                if self._consumer is not None:
                    self._consumer.unsubscribe()


class KafkaFencer:
    """InitProducerId on a transactional id aborts its open transaction and fences whoever holds it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fences every id. Raises KafkaUnavailable."""
        try:
            await asyncio.gather(*(self._fence(name) for name in transactional_ids))
        except KafkaError as error:
            raise KafkaUnavailable("a transactional id cannot be taken over") from error

    async def _fence(self, transactional_id: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.kafka,
            transactional_id=transactional_id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            **self._settings.kafka_client_options(),
        )
        try:
            await producer.start()
        finally:
            await producer.stop()
