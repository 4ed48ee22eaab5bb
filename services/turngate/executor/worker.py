"""The worker: reads orders from Kafka, executes them concurrently, answers each on the partition it names."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError

from turngate.executor.answers import Reply
from turngate.executor.calls import Call, CallSettings, Sent
from turngate.executor.claims import ClaimLog
from turngate.executor.tools import ToolHandler
from turngate.executor.watermark import Watermark
from turngate.schemas.errors import ConfigurationError, InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any
from turngate.schemas.tools import ToolCancel, ToolOrder
from turngate.topology.client import ClientOptions
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

log = logging.getLogger("turngate.executor")

ORDERS = TOPICS["tool-calls"]
POLL_MS = 200
COMMIT_S = 0.1
REVOKE_WAIT_S = 5.0
CANCELS_MAX = 10_000
REQUEST_BYTES_MAX = TOPICS["tool-results"].bytes_max + 64 * 1024
FETCH_BYTES_MAX = ORDERS.bytes_max + 64 * 1024


class ToolExecutor:
    """Executes the orders of the tools it is given.

    group: consumer group of all workers with the same tools; the broker knows it as `<prefix>.executor.<group>`. One
    tool belongs to one group. Where two serve it, each order is executed by the one that claims it first.
    kafka, topic_prefix: TURNGATE_KAFKA and TURNGATE_TOPIC_PREFIX where not given. tenants: whose orders are
    executed; None: everybody's. topics: full names, where orders are routed elsewhere.
    instance_id: stable name of this process in the group, unique in it; TURNGATE_EXECUTOR_INSTANCE_ID where not given.
    With it a restarted process has its partitions back at once, and one that stops keeps them for the session timeout.
    concurrency: handlers at once. backlog: orders held while they wait for a handler. quiet_s: how long another group's
    claim of a repeatable execution holds without a heartbeat. drain_s: how long running handlers may take at the end.
    """

    def __init__(
        self,
        *,
        group: str,
        kafka: str | None = None,
        topic_prefix: str | None = None,
        tenants: Collection[str] | None = None,
        options: ClientOptions | None = None,
        topics: Sequence[str] | None = None,
        instance_id: str | None = None,
        concurrency: int = 16,
        backlog: int = 500,
        heartbeat_s: float = 5.0,
        quiet_s: float = 30.0,
        drain_s: float = 20.0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._kafka = kafka or os.environ.get("TURNGATE_KAFKA", "")
        prefix = topic_prefix or os.environ.get("TURNGATE_TOPIC_PREFIX") or "turngate"
        if not self._kafka:
            raise ConfigurationError("no broker is named: pass kafka=..., or set TURNGATE_KAFKA to host:port")
        self._group = f"{prefix}.executor.{group}"
        self._topics = tuple(topics or (ORDERS.full_name(prefix),))
        self._tenants = None if tenants is None else frozenset(tenants)
        self._options = options or ClientOptions()
        self._instance_id = instance_id or os.environ.get("TURNGATE_EXECUTOR_INSTANCE_ID") or None
        self._backlog = backlog
        self._drain_s = drain_s
        self._now_ms = now_ms
        self._settings = CallSettings(
            group=group,
            # A process must not take over the claims of an earlier one, whose handlers may have done anything.
            executor=f"{group}/{uuid.uuid4().hex[:12]}",
            source=f"executor/{group}",
            heartbeat_s=heartbeat_s,
            quiet_s=quiet_s,
        )
        self._tools: dict[str, ToolHandler] = {}
        self._slots = asyncio.Semaphore(concurrency)
        self._calls: dict[str, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._marks: dict[TopicPartition, Watermark] = {}
        self._progressed = asyncio.Event()
        self._finished = asyncio.Event()
        self._consumer: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._claims: ClaimLog | None = None
        self.ready = asyncio.Event()
        """Set once partitions are assigned."""

    def tool(self, name: str) -> Callable[[ToolHandler], ToolHandler]:
        """Decorator: this coroutine function executes the orders of this tool."""

        def register(handler: ToolHandler) -> ToolHandler:
            if name in self._tools:
                raise ConfigurationError(f"tool {name} has two handlers")
            self._tools[name] = handler
            return handler

        return register

    def main(self) -> None:
        """Run until SIGTERM or SIGINT, then drain. For a process that does nothing else: it says on standard error what
        it waits for, when it is ready, and whatever the SDK warns of."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")

        async def serve() -> None:
            stop = asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            telling = asyncio.create_task(self._tell())
            try:
                await self.run(stop)
            finally:
                telling.cancel()

        asyncio.run(serve())

    async def _tell(self) -> None:
        tools = ", ".join(sorted(self._tools)) or "no tools"
        _say(f"{self._group} ({tools}) at {self._kafka}: waiting for partitions of {', '.join(self._topics)}")
        await self.ready.wait()
        _say(f"{self._group} is ready; Ctrl-C ends it")

    async def run(self, stop: asyncio.Event) -> None:
        """Execute orders until `stop` is set, then finish what runs, commit and leave the group. Once only.

        Raises what Kafka raises: nothing is lost then, what was not answered is delivered again.
        """
        producer = self._producer = AIOKafkaProducer(
            bootstrap_servers=self._kafka, acks="all", enable_idempotence=True,
            max_request_size=REQUEST_BYTES_MAX, **self._options,
        )  # fmt: skip
        consumer = self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._kafka, group_id=self._group, group_instance_id=self._instance_id,
            enable_auto_commit=False, auto_offset_reset="earliest", isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES_MAX, **self._options,
        )  # fmt: skip
        claims = AIOKafkaConsumer(
            bootstrap_servers=self._kafka, enable_auto_commit=False, auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES_MAX, **self._options,
        )  # fmt: skip
        self._claims = ClaimLog(claims)
        await producer.start()
        try:
            await claims.start()
            read_steadily(claims)
            consumer.subscribe(self._topics, listener=_Assignments(self))
            await consumer.start()
            read_steadily(consumer)
            try:
                async with asyncio.TaskGroup() as work:
                    beside = [work.create_task(self._commit_along(consumer)), work.create_task(self._claims.run())]
                    await self._read(consumer, stop, work)
                    await self._drain()
                    for task in beside:
                        task.cancel()
                await self._commit(consumer)
            finally:
                await consumer.stop()
        finally:
            await claims.stop()
            await producer.stop()

    async def _read(self, consumer: AIOKafkaConsumer, stop: asyncio.Event, work: asyncio.TaskGroup) -> None:
        """Never stops polling: the group would take a silent member for dead, and cancels would go unread."""
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=self._backlog)
            records = [(at, record) for at, batch in batches.items() for record in batch]
            decoded = [(at, record, self._decoded(record)) for at, record in records]
            for _, _, entry in decoded:
                if isinstance(entry, ToolCancel):
                    self._cancel(entry)
            for at, record, entry in decoded:
                mark = self._marks.get(at)
                if mark is None:
                    continue  # revoked while its records were under way
                mark.begin(record.offset)
                call = self._call(entry, record.timestamp) if isinstance(entry, ToolOrder) else None
                if call is None:
                    self._finish(mark, record.offset)
                else:
                    task = work.create_task(self._serve(call, mark, record.offset))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            self._throttle(consumer)

    def _throttle(self, consumer: AIOKafkaConsumer) -> None:
        if len(self._tasks) >= self._backlog:
            consumer.pause(*consumer.assignment())
        elif consumer.paused():
            consumer.resume(*consumer.paused())

    def _decoded(self, record: ConsumerRecord[bytes, bytes]) -> ToolOrder | ToolCancel | None:
        try:
            entry = decode_any(record.value, ORDERS.schemas)
        except (InvalidRecord, UnknownSchema) as error:
            log.error("record %s/%d@%d skipped: %s", record.topic, record.partition, record.offset, error)
            return None
        return entry if isinstance(entry, ToolOrder | ToolCancel) else None

    def _cancel(self, entry: ToolCancel) -> None:
        self._cancelled[entry.idempotency_key] = None
        while len(self._cancelled) > CANCELS_MAX:
            self._cancelled.popitem(last=False)
        for call in self._calls.values():
            if call.order.idempotency_key == entry.idempotency_key:
                call.cancel()

    def _call(self, order: ToolOrder, ordered_ms: int) -> Call | None:
        """The execution of an order, a running one where the order was delivered before; None: not for us."""
        handler = self._tools.get(order.tool)
        if handler is None or (self._tenants is not None and order.tenant not in self._tenants):
            return None
        if order.idempotency_key in self._cancelled:
            return None
        assert self._claims is not None
        call = Call(
            order, handler, ordered_ms=ordered_ms, claims=self._claims, send=self._send, settings=self._settings,
            now_ms=self._now_ms,
        )  # fmt: skip
        return self._calls.get(call.key, call)

    async def _serve(self, call: Call, mark: Watermark, offset: int) -> None:
        if call.key in self._calls:
            await call.ended.wait()
            self._finish(mark, offset)
            return
        self._calls[call.key] = call
        try:
            async with self._slots:
                await call.run()
            self._finish(mark, offset)
        finally:
            call.ended.set()
            self._calls.pop(call.key, None)

    def _finish(self, mark: Watermark, offset: int) -> None:
        mark.finish(offset)
        self._progressed.set()
        self._finished.set()

    async def _send(self, reply: Reply) -> Sent | None:
        """Returns once the broker acknowledged. A partition that does not exist cannot be answered: logged."""
        assert self._producer is not None
        if reply.to.partition not in await self._producer.partitions_for(reply.to.topic):
            log.error("an order asks for its answer on %s/%d, which does not exist", reply.to.topic, reply.to.partition)
            return None
        sent: Sent = await self._producer.send_and_wait(
            reply.to.topic, reply.value, key=reply.key, partition=reply.to.partition, headers=list(reply.headers)
        )
        return sent

    async def _commit_along(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await self._progressed.wait()
            self._progressed.clear()
            await self._commit(consumer)
            await asyncio.sleep(COMMIT_S)

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        """Commit every partition up to its oldest unfinished order. A rebalance under way makes it wait."""
        due = {at: (mark, mark.due) for at, mark in self._marks.items()}
        offsets = {at: offset for at, (_, offset) in due.items() if offset is not None}
        if not offsets:
            return
        try:
            await consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError):
            self._progressed.set()
            return
        for at, offset in offsets.items():
            due[at][0].committed(offset)

    async def _drain(self) -> None:
        """Let the running handlers end; those that do not are cancelled and their orders delivered again."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._drain_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """New partitions, new marks: what an earlier assignment still runs no longer moves an offset."""
        self._marks = {at: Watermark() for at in partitions}
        if self._claims is not None:
            self._claims.forget()
        self.ready.set()

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Give what runs a moment to end, commit what ended, forget the rest."""
        marks = [self._marks[at] for at in partitions if at in self._marks]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REVOKE_WAIT_S):
                while any(mark.open for mark in marks):
                    self._finished.clear()
                    await self._finished.wait()
        assert self._consumer is not None
        await self._commit(self._consumer)
        self._marks = {}


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@ConsumerRebalanceListener.register  # not a base: aiokafka has no types, and awaits what it declares as plain
class _Assignments:
    def __init__(self, worker: ToolExecutor) -> None:
        self._worker = worker

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._worker.revoked(revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._worker.assigned(assigned)
