"""One partition number of a role: its producer, its handler, its queue, one transaction at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from turngate.runtime.clock import Clock
from turngate.runtime.deadletters import TOPIC as DEAD_LETTERS
from turngate.runtime.deadletters import DeadRecord, dead_letter, origin_of
from turngate.runtime.errors import LostFence, Retryable
from turngate.runtime.handlers import PartitionHandler, PartitionStart
from turngate.runtime.isolate import Outcome, checked, step_isolated
from turngate.runtime.logging import Log
from turngate.runtime.metrics import Metrics
from turngate.runtime.offsets import GroupOffsets
from turngate.runtime.producer import TransactionalProducer
from turngate.runtime.progress import Progress
from turngate.runtime.records import InputRecord, Output, Position, StepResult
from turngate.runtime.settings import Settings
from turngate.runtime.takeovers import CAREFUL_FROM, StepGate, TakeoverCounter
from turngate.runtime.triage import own_dead, triage
from turngate.schemas.errors import TurngateError
from turngate.topology.groups import RoleSpec
from turngate.topology.topics import TOPICS

T = TypeVar("T")

RETRY_FIRST_SECONDS = 0.05
RETRY_MAX_SECONDS = 2.0
STALE_PAUSES_SECONDS = (0.02, 0.05, 0.1, 0.2)
UNREADY = (Retryable, OSError, TimeoutError, KafkaError, RedisConnectionError, RedisTimeoutError)
"""Never a record's fault: the same step again after a pause."""


class Interrupted(Retryable):
    """A retry was given up because the partition is being suspended; the batch went back to the queue."""

    code = "interrupted"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all partitions of one worker share."""

    settings: Settings
    role: RoleSpec
    group: str
    clock: Clock
    metrics: Metrics
    log: Log
    offsets: GroupOffsets
    counter: TakeoverCounter
    idle_interval_ms: int | None
    random: Callable[[], float]
    gate: StepGate = field(default_factory=StepGate)

    def full_name(self, topic: str) -> str:
        return TOPICS[topic].full_name(self.settings.topic_prefix)


class PartitionRunner:
    """Made for one take-over and never used for a second one.

    Life: `take_over`, then `run` as a task, `suspend` and `resume` around rebalances, `close` at the end.
    """

    def __init__(self, around: Surroundings, number: int, handler_factory: Callable[[int], PartitionHandler]) -> None:
        self.number = number
        self.ready = False
        self._around = around
        self._log = around.log.bind(partition=number)
        self._make_handler = handler_factory
        self._handler: PartitionHandler | None = None
        self._producer = TransactionalProducer(
            around.settings, around.role.transactional_id(around.settings.topic_prefix, number)
        )
        self._allowed = frozenset((*around.role.outputs, DEAD_LETTERS))
        self._progress = Progress({})
        self._queue: deque[InputRecord] = deque()
        self._queued_bytes = 0
        self._next_fetch: dict[str, int] = {}
        self._gate = asyncio.Event()
        self._shut = asyncio.Event()
        self._running = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._wake = asyncio.Event()
        self._held = _Held()
        self._committing: asyncio.Task[None] | None = None
        self._careful_records = 0
        self._suspect: str | None = None
        self._progress_noted = False
        self._uncounted: str | None = None

    # -- take-over ------------------------------------------------------------------------------------------

    def inputs(self) -> dict[str, TopicPartition]:
        """Logical topic name -> the partition on the broker."""
        return {name: TopicPartition(self._around.full_name(name), self.number) for name in self._around.role.inputs}

    async def take_over(self) -> None:
        """Fence, then read what is committed, then start the handler (DESIGN §4 rule 3). The caller seeks.

        Raises MissingOffset, LostFence, BrokerNotReady.
        """
        around = self._around
        await self._retried(self._producer.start)
        term = self._producer.term
        inputs = self.inputs()
        found = await around.offsets.read(inputs.values())
        positions = {name: found[tp] for name, tp in inputs.items()}
        self._progress = Progress(positions)
        self._next_fetch = {name: at.offset for name, at in positions.items()}
        where = ",".join(f"{name}@{at.offset}" for name, at in sorted(positions.items()))
        handler = self._make_handler(self.number)
        start = PartitionStart(self.number, term, positions)
        await self._retried(lambda: handler.start(start))
        self._handler = handler
        self._uncounted = where
        self.ready = True
        around.metrics.worker_takeovers.inc()
        self._log.info("partition_taken_over", term=term, positions=where)

    async def position_unchanged(self) -> bool:
        """Whether what is committed is what this runner committed last. Raises MissingOffset, BrokerNotReady.

        Without InitProducerId before it, a read may still miss a commit that was acknowledged already, so an
        older answer is asked again. An answer that misses somebody else's commit does no harm: whoever
        committed has fenced this runner's producer.
        """
        inputs, mine = self.inputs(), self._progress.committed()
        for pause in (*STALE_PAUSES_SECONDS, None):
            found = await self._around.offsets.read(inputs.values())
            stored = {name: found[tp] for name, tp in inputs.items()}
            if stored == mine:
                return True
            if pause is None or any(stored[name].offset > mine[name].offset for name in mine):
                break
            await asyncio.sleep(pause)
        return False

    def next_fetch(self) -> dict[TopicPartition, int]:
        """Where fetching goes on: behind the last record in the queue."""
        return {tp: self._next_fetch[name] for name, tp in self.inputs().items()}

    # -- queue ----------------------------------------------------------------------------------------------

    def feed(self, records: Sequence[InputRecord]) -> None:
        """Queues records of one input, in offset order. What was given before is left out: nothing is stepped twice."""
        for record in records:
            if record.offset < self._next_fetch.get(record.topic, 0):
                continue
            self._queue.append(record)
            self._queued_bytes += _size(record)
            self._next_fetch[record.topic] = record.offset + 1
        self._around.metrics.worker_queue_records.labels(str(self.number)).set(len(self._queue))
        self._wake.set()

    @property
    def queued(self) -> int:
        """Records waiting for a step."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether fetching should pause."""
        settings = self._around.settings
        return len(self._queue) >= settings.queue_records_max or self._queued_bytes >= settings.queue_bytes_max

    @property
    def drained(self) -> bool:
        """Whether fetching may go on again: under half of the limits."""
        settings = self._around.settings
        return len(self._queue) * 2 <= settings.queue_records_max and self._queued_bytes * 2 <= settings.queue_bytes_max

    def age_ms(self, topic: str, now_ms: int) -> int:
        """Age of the oldest record of an input that was read and is not committed."""
        return self._progress.inputs[topic].age_ms(now_ms) if topic in self._progress.inputs else 0

    def in_work(self, topic: str) -> int:
        """Records of an input that were fetched and not committed yet."""
        at = self._progress.inputs.get(topic)
        waiting = sum(1 for record in self._queue if record.topic == topic)
        return waiting + (max(0, at.tail - at.committed.offset) if at is not None else 0)

    # -- running --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Steps and commits until cancelled. Raises LostFence, MissingOffset or what a handler did wrong."""
        self._running = True
        try:
            await self._run()
        finally:
            if self._committing is not None:
                self._committing.cancel()
                await asyncio.gather(self._committing, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            if not self._held.open and not self._gate.is_set():
                await self._committed()
                self._idle.set()
                await self._gate.wait()
            self._idle.clear()
            if self._committing is not None and self._committing.done():
                await self._committed()
            due = await self._wait_for_work()
            if self._held.open and (due or not self._gate.is_set()):
                await self._commit()
            if not self._gate.is_set():
                continue
            if self._uncounted is not None and self._queue and not await self._count_takeover(self._uncounted):
                continue
            batch = self._take_batch()
            if batch or self._around.idle_interval_ms is not None:
                await self._process(batch)

    def resume(self) -> None:
        """Work may go on."""
        self._shut.clear()
        self._gate.set()

    async def suspend(self) -> None:
        """Returns once no step runs and no transaction is open; queue, producer and handler are kept."""
        self._gate.clear()
        self._shut.set()
        self._wake.set()
        await self._idle.wait()

    async def close(self) -> None:
        """Closes the producer, then the handler. An open transaction is left to be aborted."""
        self._gate.clear()
        self._shut.set()
        self.ready = False
        await self._producer.stop()
        handler, self._handler = self._handler, None
        if handler is not None:
            await handler.stop()

    async def handed_over(self) -> None:
        """The partition is given away in good order: its next take-over is no sign of trouble."""
        with suppress(*UNREADY):
            await self._around.counter.progressed(self._around.group, self.number)

    async def _count_takeover(self, where: str) -> bool:
        """Counted once there is a record to step: a partition without work makes no progress, and nothing is wrong.

        False where the partition is being suspended meanwhile.
        """
        around = self._around
        try:
            seen = await self._retried(lambda: around.counter.taken_over(around.group, self.number, where))
        except Interrupted:
            return False
        self._uncounted = None
        if seen.count >= CAREFUL_FROM:
            self._careful_records = around.settings.batch_records_max
            self._suspect = seen.suspect
            self._log.warning("stepping_record_by_record", takeovers=seen.count, suspect=seen.suspect)
        return True

    async def _wait_for_work(self) -> bool:
        """True where the held transaction is due."""
        if self._queue and self._gate.is_set():
            return False
        loop = asyncio.get_running_loop()
        idle_ms = self._around.idle_interval_ms
        wait = None if idle_ms is None else idle_ms / 1000
        if self._held.open:
            left = self._held.due - loop.time()
            if left <= 0:
                return True
            wait = left if wait is None else min(wait, left)
        if self._gate.is_set():
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
        return self._held.open and loop.time() >= self._held.due

    def _take_batch(self) -> list[InputRecord]:
        settings = self._around.settings
        batch: list[InputRecord] = []
        size = 0
        limit = 1 if self._careful_records else settings.batch_records_max - self._held.records
        while self._queue and len(batch) < max(1, limit):
            size += _size(self._queue[0])
            if batch and size > settings.batch_bytes_max:
                break
            batch.append(self._queue.popleft())
        self._queued_bytes -= sum(_size(record) for record in batch)
        self._around.metrics.worker_queue_records.labels(str(self.number)).set(len(self._queue))
        return batch

    async def _process(self, batch: list[InputRecord]) -> None:
        around = self._around
        sorted_batch = triage(batch, around.settings.partitions, around.role.name)
        try:
            outcome = await self._step(sorted_batch.good, idle=not batch)
        except Interrupted:
            self._queue.extendleft(reversed(batch))
            self._queued_bytes += sum(_size(record) for record in batch)
            if self._held.open:
                await self._commit()
            return
        self._progress.read(batch)
        own, skipped = own_dead(outcome.dead, around.role.name)
        dead = [*sorted_batch.dead, *own]
        gone = {(item.record.topic, item.record.offset) for item in outcome.dead}
        self._progress.stepped(record for record in sorted_batch.good if (record.topic, record.offset) not in gone)
        for result in outcome.results:
            if result.positions is not None:
                self._progress.claim(result.positions)
        outputs = [out for result in outcome.results for out in result.outputs]
        outputs += sorted_batch.moved
        outputs += [dead_letter(item, around.role.name) for item in dead]
        self._count(sorted_batch.moved, dead, [*sorted_batch.skipped, *skipped], redone=outcome.redone)
        plain = not dead and not sorted_batch.moved
        hold = plain and all(result.hold for result in outcome.results)
        ahead = plain and all(result.ahead for result in outcome.results)
        await self._publish(outputs, outcome.results, records=len(batch), hold=hold, ahead=ahead)

    async def _publish(
        self, outputs: list[Output], results: list[StepResult], *, records: int, hold: bool, ahead: bool
    ) -> None:
        await self._committed()
        callbacks = [call for result in results for call in result.after_commit]
        if not outputs and not self._held.open and not self._progress.moved():
            for call in callbacks:
                call()
            return
        loop = asyncio.get_running_loop()
        if not self._held.open:
            self._held = _Held(open=True, began=loop.time(), due=loop.time() + self._around.settings.hold_ms / 1000)
        self._held.records += records
        self._held.callbacks += callbacks
        await self._producer.stage(outputs)
        limit = self._around.settings.batch_records_max
        if not hold or self._held.records >= limit or loop.time() >= self._held.due:
            await self._commit(ahead=ahead)

    async def _commit(self, *, ahead: bool = False) -> None:
        """Ends the held transaction. ahead: returns at once, so that the next batch is stepped meanwhile."""
        held, self._held = self._held, _Held()
        ending = self._end_transaction(held, self._progress.moved())
        if ahead and not self._careful_records:
            self._committing = asyncio.create_task(ending)
            self._committing.add_done_callback(lambda _: self._wake.set())
        else:
            await ending

    async def _committed(self) -> None:
        """Returns once no commit is under way. Raises LostFence where the last one failed."""
        if self._committing is not None:
            await asyncio.shield(self._committing)
            self._committing = None

    async def _end_transaction(self, held: _Held, moved: dict[str, Position]) -> None:
        around = self._around
        inputs = self.inputs()
        await self._producer.commit(around.group, {inputs[name]: position for name, position in moved.items()})
        self._progress.commit(moved)
        around.metrics.worker_transactions.labels("committed").inc()
        around.metrics.worker_transaction_records.observe(held.records)
        around.metrics.worker_transaction_seconds.observe(asyncio.get_running_loop().time() - held.began)
        for call in held.callbacks:
            call()
        if moved:
            await self._note_progress(held.records)

    async def _note_progress(self, records: int) -> None:
        if self._careful_records > 0:
            self._careful_records = max(0, self._careful_records - records)
        if not self._progress_noted:
            # Best effort: where the counter cannot be reached, the next commit tries again.
            with suppress(*UNREADY):
                await self._around.counter.progressed(self._around.group, self.number)
                self._progress_noted = True

    # -- steps ----------------------------------------------------------------------------------------------

    async def _step(self, records: list[InputRecord], *, idle: bool) -> Outcome:
        if not records and not idle:
            return Outcome()
        if self._careful_records and records and origin_of(records[0]) == self._suspect:
            self._suspect = None
            return Outcome(dead=[DeadRecord(records[0], "kills_worker", "three take-overs without progress")])
        with self._around.metrics.worker_step_seconds.time():
            if not records:
                return Outcome(results=[await self._attempt([])])
            return await step_isolated(self._attempt, records)

    async def _attempt(self, records: Sequence[InputRecord]) -> StepResult:
        handler = self._handler
        assert handler is not None, "take_over came first"
        result = await self._retried(lambda: self._gated(handler, records))
        return checked(result, self._allowed)

    async def _gated(self, handler: PartitionHandler, records: Sequence[InputRecord]) -> StepResult:
        """In careful mode alone in this process, and with the record's name on file while it is stepped."""
        around = self._around
        if not self._careful_records or not records:
            async with around.gate.beside():
                return await handler.step(records)
        async with around.gate.alone():
            await around.counter.suspect(around.group, self.number, origin_of(records[0]))
            try:
                return await handler.step(records)
            finally:
                # Best effort: the process lives, and where the position moves on, the name means nothing any more.
                with suppress(*UNREADY):
                    await around.counter.suspect(around.group, self.number, None)

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls until the world is ready; not ready meanwhile. Raises Interrupted when suspended while waiting."""
        was_ready, pause = self.ready, RETRY_FIRST_SECONDS
        while True:
            try:
                answer = await call()
            except LostFence:
                raise
            except UNREADY as error:
                self.ready = False
                code = error.code if isinstance(error, TurngateError) else type(error).__name__
                self._around.metrics.worker_retries.labels(code).inc()
                if pause in (RETRY_FIRST_SECONDS, RETRY_MAX_SECONDS):
                    self._log.warning("step_retried", code=code)
                await self._pause(pause * (0.5 + self._around.random() / 2))
                pause = min(pause * 2, RETRY_MAX_SECONDS)
            else:
                self.ready = was_ready
                return answer

    async def _pause(self, seconds: float) -> None:
        """Raises Interrupted as soon as a running partition is being suspended."""
        if not self._running:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._shut.wait()
        if self._shut.is_set():
            self.ready = True
            raise Interrupted("the partition is being suspended")

    def _count(self, moved: list[Output], dead: list[DeadRecord], skipped: list[DeadRecord], *, redone: bool) -> None:
        metrics = self._around.metrics
        for out in moved:
            metrics.misrouted_records.labels(out.topic).inc()
        for item in skipped:
            metrics.skipped_records.labels(item.reason).inc()
        for item in dead:
            metrics.dead_letters.labels(item.reason).inc()
            self._log.error("dead_letter", reason=item.reason, origin=origin_of(item.record), detail=item.detail)
        if redone:
            metrics.worker_redone_batches.inc()


@dataclass(slots=True)
class _Held:
    """The open transaction: since when, until when at most, and what it carries."""

    open: bool = False
    began: float = 0.0
    due: float = 0.0
    records: int = 0
    callbacks: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


def _size(record: InputRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
