"""The worker of a role: joins its group and runs one handler per partition number (DESIGN §4).

aiokafka 0.14 rebalances eagerly: at every change all partitions are revoked and assigned again. A runner
whose partition comes back with an unchanged committed position goes on as it was; any other is made anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from turngate.runtime.clock import Clock
from turngate.runtime.consumer import lag_records
from turngate.runtime.errors import LostFence, Retryable
from turngate.runtime.handlers import PartitionHandler, PartitionStart
from turngate.runtime.logging import Log, get_log
from turngate.runtime.membership import Membership
from turngate.runtime.metrics import Metrics
from turngate.runtime.offsets import GroupOffsets
from turngate.runtime.partition import PartitionRunner, Surroundings
from turngate.runtime.producer import SideProducer
from turngate.runtime.records import InputRecord
from turngate.runtime.settings import Settings
from turngate.runtime.takeovers import LocalTakeoverCounter, TakeoverCounter
from turngate.schemas.errors import ConfigurationError
from turngate.topology.groups import RoleSpec
from turngate.topology.topics import TOPICS

__all__ = ["PartitionHandler", "PartitionStart", "SideProducer", "Worker", "WorkerStatistics"]

POLL_MS = 200
ALL_FULL_SECONDS = 0.02
GAUGES_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """partitions: numbers assigned. running: of these, taken over. queued: records waiting for a step."""

    partitions: tuple[int, ...]
    running: tuple[int, ...]
    queued: int
    takeovers: int
    lost: int
    ready: bool


class Worker:
    """Runs until `request_stop`. One per process and role."""

    def __init__(
        self,
        *,
        settings: Settings,
        role: RoleSpec,
        handler_factory: Callable[[int], PartitionHandler],
        clock: Clock,
        metrics: Metrics,
        idle_interval_ms: int | None = None,
        takeover_counter: TakeoverCounter | None = None,
        log: Log | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._role = role
        self._make_handler = handler_factory
        self._metrics = metrics
        self._clock = clock
        self._log = log if log is not None else get_log()
        self._group = role.group(settings.topic_prefix)
        self._topics = {TOPICS[name].full_name(settings.topic_prefix): name for name in role.inputs}
        self._around = Surroundings(
            settings=settings, role=role, group=self._group, clock=clock, metrics=metrics, log=self._log,
            offsets=GroupOffsets(settings, self._group),
            counter=takeover_counter if takeover_counter is not None else LocalTakeoverCounter(),
            idle_interval_ms=idle_interval_ms, random=jitter,
        )  # fmt: skip
        self._member = Membership(
            settings, role, self._topics, on_revoked=self._on_revoked, on_assigned=self._on_assigned, random=jitter,
            log=self._log,
        )  # fmt: skip
        self._runners: dict[int, PartitionRunner] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Of these fetching has been put to where it goes on. A runner that waits for that after a rebalance must be
        # given nothing: the client begins at the committed offset, which may lie far behind what the runner has read.
        self._attached: set[int] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._settling: asyncio.Task[None] | None = None
        self._numbers: tuple[int, ...] = ()
        self._joined = False
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._takeovers = 0
        self._lost = 0
        self._rejoining = False

    # -- surface --------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Joined, not stopping, and every assigned partition is taken over and not waiting for Redis."""
        return (
            self._joined
            and not self._stop.is_set()
            and self._failure is None
            and all(number in self._runners and self._runners[number].ready for number in self._numbers)
        )

    def statistics(self) -> WorkerStatistics:
        return WorkerStatistics(
            partitions=self._numbers,
            running=tuple(sorted(self._tasks)),
            queued=sum(runner.queued for runner in self._runners.values()),
            takeovers=self._takeovers,
            lost=self._lost,
            ready=self.ready,
        )

    def request_stop(self) -> None:
        """Begins the drain; `run` returns when it is over. Safe to call from a signal handler of the loop."""
        self._stop.set()

    async def run(self) -> None:
        """Works until `request_stop`, then finishes the running transactions, hands back and leaves the group.

        Raises MissingOffset, ConfigurationError, or whatever made going on impossible.
        """
        try:
            await self._start()
            await self._fetch_until_stopped()
        finally:
            await self._drain()
        if self._failure is not None:
            raise self._failure

    # -- life -----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self._around.offsets.start()
        await self._until_stopped(self._member.join())

    async def _fetch_until_stopped(self) -> None:
        fetching = asyncio.create_task(self._fetch())
        gauges = asyncio.create_task(self._keep_gauges())
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({fetching, gauges, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (fetching, gauges):
                if task.done() and not self._stop.is_set():
                    task.result()
        finally:
            await _cancel(fetching, gauges, stopped)

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            await _cancel(task, stopped)

    async def _drain(self) -> None:
        """Finish the running transactions, leave the group, then let the handlers end; all within drain_seconds."""
        self._stop.set()
        runners, self._runners = self._runners, {}
        tasks, self._tasks = self._tasks, {}
        if self._settling is not None:
            await _cancel(self._settling)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_seconds):
                await asyncio.gather(*(self._suspended(runners[number], tasks[number]) for number in tasks))
                await asyncio.gather(*(runners[number].handed_over() for number in tasks))
        await _cancel(*tasks.values())
        await self._member.leave()
        await asyncio.gather(*(self._close(runner) for runner in runners.values()))
        await _cancel(*self._background)
        await self._around.offsets.stop()
        self._log.info("worker_stopped")

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._stop.set()

    # -- fetching -------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        while not self._stop.is_set():
            consumer = self._member.consumer
            open_inputs = self._open_inputs(consumer)
            try:
                if not open_inputs:
                    # Asking for a partition that does not exist reports errors and marks us as alive.
                    await consumer.getmany(TopicPartition("", 0), timeout_ms=0)
                    await asyncio.sleep(ALL_FULL_SECONDS)
                    continue
                # In portions: a broker need not honour the limits of a fetch, but a queue ends where it is full.
                portion = self._settings.batch_records_max
                fetched = await consumer.getmany(*open_inputs, timeout_ms=POLL_MS, max_records=portion)
            except KafkaError as error:
                await self._member.recover(error)
                continue
            for tp, records in fetched.items():
                self._hand_on(consumer, tp, records)

    def _open_inputs(self, consumer: AIOKafkaConsumer) -> list[TopicPartition]:
        """Inputs whose queues have room. A full one is paused, which keeps what was fetched but fetches no more."""
        paused = consumer.paused()
        found: list[TopicPartition] = []
        for number, runner in self._runners.items():
            if number not in self._attached:
                continue
            for tp in runner.inputs().values():
                if tp in paused and runner.drained:
                    consumer.resume(tp)
                    found.append(tp)
                elif tp not in paused:
                    found.append(tp)
        return found

    def _hand_on(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, records: list[ConsumerRecord[bytes, bytes]]
    ) -> None:
        runner = self._runners.get(tp.partition)
        if runner is None or tp.partition not in self._attached:
            return
        topic = self._topics[tp.topic]
        runner.feed([_input(topic, record) for record in records])
        if runner.full:
            with suppress(IllegalStateError):
                consumer.pause(*runner.inputs().values())

    # -- rebalances -----------------------------------------------------------------------------------------

    async def _on_revoked(self) -> None:
        """Runs before every join: no transaction may be open across it, state is kept for what comes back."""
        self._joined = False
        self._attached.clear()
        if self._settling is not None:
            await _cancel(self._settling)
            self._settling = None
        for number in [number for number in self._runners if number not in self._tasks]:
            self._close_later(self._runners.pop(number))
        await asyncio.gather(*(self._suspend_or_drop(number) for number in tuple(self._tasks)))

    async def _suspend_or_drop(self, number: int) -> None:
        runner, task = self._runners[number], self._tasks[number]
        try:
            async with asyncio.timeout(self._settings.rebalance_timeout_ms / 1000 / 2):
                await self._suspended(runner, task)
        except TimeoutError:
            self._log.warning("partition_dropped", partition=number, reason="step_outlasted_rebalance")
            self._metrics.worker_lost_partitions.labels("step_outlasted_rebalance").inc()
            self._drop(number)

    async def _suspended(self, runner: PartitionRunner, task: asyncio.Task[None]) -> None:
        suspending = asyncio.create_task(runner.suspend())
        try:
            await asyncio.wait({suspending, task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(suspending)

    def _on_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        consumer = self._member.consumer
        tps = tuple(assigned)
        consumer.pause(*tps)
        numbers = tuple(sorted({tp.partition for tp in tps}))
        odd = [number for number in numbers if sum(tp.partition == number for tp in tps) != len(self._topics)]
        if odd:
            self._fail(
                ConfigurationError(
                    f"partitions {odd} of {self._group} came without all of its inputs: the input topics differ "
                    "in partition count; run `turngate topology check`"
                )
            )
            return
        self._numbers = numbers
        self._joined = True
        self._metrics.worker_partitions.set(len(numbers))
        for number in [number for number in self._runners if number not in numbers]:
            self._give_away(number)
        self._settling = asyncio.create_task(self._settle(numbers))

    async def _settle(self, numbers: tuple[int, ...]) -> None:
        results = await asyncio.gather(*(self._settle_one(number) for number in numbers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                self._fail(result)

    async def _settle_one(self, number: int) -> None:
        runner = self._runners.get(number)
        try:
            if runner is not None and not await self._comes_back(runner):
                self._drop(number)
                runner = None
            if runner is None:
                runner = PartitionRunner(self._around, number, self._make_handler)
                self._runners[number] = runner
                await runner.take_over()
                self._takeovers += 1
        except (ConfigurationError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._partition_lost(number, error)
            return
        self._attach(runner)

    async def _comes_back(self, runner: PartitionRunner) -> bool:
        task = self._tasks.get(runner.number)
        return task is not None and not task.done() and await runner.position_unchanged()

    def _attach(self, runner: PartitionRunner) -> None:
        consumer = self._member.consumer
        try:
            for tp, offset in runner.next_fetch().items():
                consumer.seek(tp, offset)
        except IllegalStateError:
            return  # assigned away again; the next assignment settles it
        self._attached.add(runner.number)
        if runner.number not in self._tasks:
            task = asyncio.create_task(runner.run(), name=f"partition-{runner.number}")
            self._tasks[runner.number] = task
            task.add_done_callback(partial(self._runner_ended, runner.number))
        runner.resume()
        if not runner.full:
            consumer.resume(*runner.inputs().values())

    # -- losing partitions ----------------------------------------------------------------------------------

    def _runner_ended(self, number: int, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._tasks.get(number) is not task:
            return
        error = task.exception()
        if isinstance(error, ConfigurationError):
            self._fail(error)
        elif error is not None:
            self._partition_lost(number, error)

    def _partition_lost(self, number: int, error: BaseException) -> None:
        """Drop everything of the partition and rejoin; it is never initialised again in place."""
        code = error.code if isinstance(error, LostFence | Retryable) else type(error).__name__
        self._lost += 1
        self._metrics.worker_lost_partitions.labels(code).inc()
        self._log.warning("partition_lost", partition=number, reason=code)
        runner = self._runners.get(number)
        if runner is not None:
            with suppress(IllegalStateError):
                self._member.consumer.pause(*runner.inputs().values())
        self._drop(number)
        if not self._stop.is_set() and not self._rejoining:
            self._rejoining = True
            self._spawn(self._rejoin())

    async def _rejoin(self) -> None:
        await self._member.back_off()
        self._rejoining = False
        if not self._stop.is_set():
            self._member.rejoin()

    def _give_away(self, number: int) -> None:
        runner = self._runners[number]
        if number in self._tasks:
            self._spawn(runner.handed_over())
        self._drop(number)

    def _drop(self, number: int) -> None:
        runner = self._runners.pop(number, None)
        task = self._tasks.pop(number, None)
        self._attached.discard(number)
        if task is not None:
            task.cancel()
        if runner is not None:
            runner.ready = False
            self._close_later(runner, task)

    def _close_later(self, runner: PartitionRunner, task: asyncio.Task[None] | None = None) -> None:
        self._spawn(self._close(runner, task))

    async def _close(self, runner: PartitionRunner, task: asyncio.Task[None] | None = None) -> None:
        if task is not None:
            await _cancel(task)
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                await runner.close()
        except Exception as error:
            self._log.warning("handler_stop_failed", partition=runner.number, error=type(error).__name__)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # -- gauges ---------------------------------------------------------------------------------------------

    async def _keep_gauges(self) -> None:
        while True:
            consumer = self._member.consumer
            for number, runner in tuple(self._runners.items()):
                for name, tp in runner.inputs().items():
                    behind = lag_records(consumer, tp) + runner.in_work(name)
                    self._metrics.consumer_lag_records.labels(name, str(number)).set(behind)
                    age_s = runner.age_ms(name, self._clock.wall_ms()) / 1000
                    self._metrics.watermark_age_seconds.labels(name, str(number)).set(age_s)
            await asyncio.sleep(GAUGES_SECONDS)


def _input(topic: str, record: ConsumerRecord[bytes, bytes]) -> InputRecord:
    return InputRecord(
        topic, record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancels and waits; errors of cancelled tasks have been or will be reported elsewhere."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
