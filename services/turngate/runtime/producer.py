"""The one seam to aiokafka's producers: transactions of a partition number, and the side producer.

aiokafka reports a lost fence in several shapes, and after some errors leaves a producer that cannot go on.
So every failure inside a transaction is one thing here, LostFence: the producer is given up, never reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, InvalidProducerIdMapping, KafkaError, ProducerFenced
from aiokafka.producer import sender
from aiokafka.structs import OffsetAndMetadata

from turngate.runtime.errors import BrokerNotReady, LostFence, OversizedOutput, SendFailed
from turngate.runtime.records import Output, Position
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError
from turngate.topology.desired import HEADROOM_BYTES
from turngate.topology.keys import partition_of
from turngate.topology.topics import MIB, TOPICS

BATCH_BYTES = MIB
REQUEST_BYTES_MAX = max(spec.bytes_max for spec in TOPICS.values()) + HEADROOM_BYTES
RETRY_MS = 20
BETWEEN_TRANSACTIONS_SECONDS = 0.002
"""A broker answers a transaction's end before it has written the markers, and for a moment after refuses partitions and
records of the next one. aiokafka then waits 20 and 100 ms, which measured on Apache Kafka 4.4 is most of the time of a
transaction: 35 ms at the median. With these two it takes 7 ms."""
STOP_SECONDS = 3.0
COMMIT_GRACE_SECONDS = 5.0
"""On top of the transaction timeout: after both the broker has aborted the transaction in any case."""

Delivery = asyncio.Future[object]


def hurry_between_transactions() -> None:
    """For every producer of this process: called by a program that is turngate's own, never by a library."""
    sender.BACKOFF_OVERRIDE = BETWEEN_TRANSACTIONS_SECONDS


class TransactionalProducer:
    """One transactional id, held from InitProducerId until the first failure. Not for concurrent use."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._settings = settings
        self._id = transactional_id
        self._timeout_s = settings.transaction_timeout_ms / 1000 + COMMIT_GRACE_SECONDS
        self._producer: AIOKafkaProducer | None = None
        self._deliveries: list[Delivery] = []
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open

    @property
    def term(self) -> int:
        """producer id * 65536 + epoch: grows with every InitProducerId of this transactional id."""
        manager = _inner(self._producer, "_txn_manager")
        return int(manager.producer_id) * 65536 + int(manager.producer_epoch)

    async def start(self) -> None:
        """InitProducerId: fences the predecessor and finishes its transaction.

        Raises BrokerNotReady, or ConfigurationError where the broker refuses this id for good.
        """
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.kafka,
            transactional_id=self._id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            retry_backoff_ms=RETRY_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES_MAX,
            **self._settings.kafka_client_options(),
        )
        self._producer = producer
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                await producer.start()
        except (KafkaError, TimeoutError, OSError) as error:
            await self.stop()
            raise _start_error(self._id, error) from error
        except BaseException:
            await self.stop()
            raise

    async def stage(self, outputs: Iterable[Output]) -> None:
        """Begins a transaction unless one is open, and hands the outputs to the sender. Raises LostFence."""
        try:
            async with asyncio.timeout(self._timeout_s):
                producer = self._live()
                if not self._open:
                    await producer.begin_transaction()
                    self._open = True
                    _noted_at_end(producer)
                for out in outputs:
                    self._deliveries.append(await _enqueue(producer, out, self._settings))
        except Exception as error:
            raise self._lost(error) from error

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Position]) -> None:
        """Moves the offsets inside the open transaction and commits it. Raises LostFence: outcome unknown."""
        try:
            async with asyncio.timeout(self._timeout_s):
                producer = self._live()
                if offsets:
                    moved = {tp: OffsetAndMetadata(at.offset, at.metadata) for tp, at in offsets.items()}
                    await producer.send_offsets_to_transaction(moved, group)
                if self._deliveries:
                    await asyncio.gather(*self._deliveries)
                await producer.commit_transaction()
        except Exception as error:
            raise self._lost(error) from error
        self._deliveries = []
        self._open = False

    async def stop(self) -> None:
        """Closes the connections. An open transaction is left to the broker: the next holder of the id, or its
        timeout, aborts it; aborting here could only hang.
        """
        producer, self._producer = self._producer, None
        if producer is not None:
            for delivery in self._deliveries:
                # Given up together: each failed for the one reason that was raised already.
                delivery.add_done_callback(_noted)
                delivery.cancel()
            self._deliveries = []
            await close_producer(producer)
            _noted_at_end(producer)

    def _live(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise LostFence(f"{self._id} was given up")
        return self._producer

    def _lost(self, error: Exception) -> LostFence:
        if isinstance(error, LostFence):
            return error
        fenced = ProducerFenced | InvalidProducerEpoch
        code = (
            "fenced" if isinstance(error, fenced)
            else "producer_id_expired" if isinstance(error, InvalidProducerIdMapping)
            else "transaction_failed"
        )  # fmt: skip
        return LostFence(f"{self._id}: {type(error).__name__}", code=code)


class SideProducer:
    """Idempotent, outside of transactions: what it sends is seen at once, also by committed readers.

    For records whose truth does not hang on an offset, such as relayed stream events. Never drops silently:
    every record is either acknowledged by all in-sync replicas or raises SendFailed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None
        self._pending: set[Delivery] = set()
        self._failed: SendFailed | None = None
        self._lanes: dict[tuple[str, int], asyncio.Lock] = {}

    async def start(self) -> None:
        """Raises BrokerNotReady."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.kafka,
            enable_idempotence=True,
            max_batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES_MAX,
            **self._settings.kafka_client_options(),
        )
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                await producer.start()
        except (KafkaError, TimeoutError, OSError) as error:
            await close_producer(producer)
            raise _start_error("the side producer", error) from error
        self._producer = producer

    async def send(self, output: Output) -> None:
        """Returns once the record is acknowledged. Raises SendFailed or OversizedOutput."""
        await self.send_nowait(output)

    def send_nowait(self, output: Output) -> asyncio.Task[None]:
        """Starts sending; records of one partition keep the order of the calls. The task ends as `send` would.

        A failure is also raised by the next `flush`, so an unawaited task cannot hide it.
        """
        check_size(output)
        producer = self._producer
        if producer is None:
            raise SendFailed("the side producer is not running")
        task = asyncio.create_task(self._deliver(producer, output))
        self._pending.add(cast(Delivery, task))
        task.add_done_callback(self._settled)
        return task

    async def flush(self) -> None:
        """Waits for everything sent so far. Raises SendFailed if any of it, since the last flush, was not taken."""
        if self._pending:
            await asyncio.wait(set(self._pending))
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    async def stop(self) -> None:
        """Flushes, then closes. What cannot be delivered raises at its sender, not here."""
        producer, self._producer = self._producer, None
        if self._pending:
            await asyncio.wait(set(self._pending), timeout=STOP_SECONDS)
        if producer is not None:
            await close_producer(producer)

    async def _deliver(self, producer: AIOKafkaProducer, output: Output) -> None:
        lane = (output.topic, _partition(output, self._settings))
        try:
            # A full batch makes senders wait; the lock's queue keeps them in the order they came.
            async with self._lanes.setdefault(lane, asyncio.Lock()):
                delivery = await _enqueue(producer, output, self._settings)
            await delivery
        except (KafkaError, AssertionError) as error:
            raise SendFailed(f"{output.topic}: {type(error).__name__}") from error

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._pending.discard(cast(Delivery, task))
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, SendFailed):
                self._failed = error


def check_size(output: Output) -> None:
    """Raises OversizedOutput where the value is beyond its topic's limit."""
    limit = TOPICS[output.topic].bytes_max
    if len(output.value) > limit:
        raise OversizedOutput(f"{output.topic}: {len(output.value)} bytes, the limit is {limit}")


async def close_producer(producer: AIOKafkaProducer) -> None:
    """Stops a producer within a bounded time, also one whose broker is gone or whose sender has died."""
    with suppress(KafkaError, TimeoutError, AssertionError, OSError):
        async with asyncio.timeout(STOP_SECONDS):
            await producer.stop()
            return
    sender_task = _inner(_inner(producer, "_sender"), "_sender_task")
    if sender_task is not None:
        sender_task.cancel()
    with suppress(KafkaError, TimeoutError, OSError):
        async with asyncio.timeout(STOP_SECONDS):
            await producer.client.close()


async def _enqueue(producer: AIOKafkaProducer, out: Output, settings: Settings) -> Delivery:
    partition = _partition(out, settings)
    topic = TOPICS[out.topic].full_name(settings.topic_prefix)
    headers = list(out.headers)
    delivery: Delivery = await producer.send(topic, value=out.value, key=out.key, partition=partition, headers=headers)
    return delivery


def _partition(out: Output, settings: Settings) -> int:
    return out.partition if out.partition is not None else partition_of(out.key, settings.partitions)


def _start_error(name: str, error: Exception) -> BrokerNotReady | ConfigurationError:
    if isinstance(error, KafkaError) and "Authorization" in type(error).__name__:
        return ConfigurationError(f"{name}: {type(error).__name__}; grant this principal its ACLs")
    if type(error).__name__ == "InvalidTransactionTimeout":
        return ConfigurationError(
            f"{name}: the broker refuses this transaction timeout; set TURNGATE_TRANSACTION_TIMEOUT_MS below its "
            "transaction.max.timeout.ms"
        )
    return BrokerNotReady(f"{name}: {type(error).__name__}")


def _noted(delivery: Delivery) -> None:
    """Takes an error out of a future nobody awaits, so that the loop does not report it as forgotten."""
    if not delivery.cancelled():
        delivery.exception()


def _noted_at_end(producer: AIOKafkaProducer) -> None:
    """aiokafka tells a failed transaction to a future of its own as well, for which only a commit waits."""
    waiter: Delivery | None = _inner(_inner(producer, "_txn_manager"), "_transaction_waiter")
    if waiter is not None:
        waiter.add_done_callback(_noted)


def _inner(owner: object, name: str) -> Any:
    """A private attribute of aiokafka that has no public counterpart."""
    return getattr(owner, name)
