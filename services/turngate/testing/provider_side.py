"""Stands for the dispatchers' connections and the tool executors of a fleet on a broker, told by a plan of scenarios.

Acceptance, manifests and dispatches are the real dispatcher's, stepped record by record outside of a group. What comes
back of each accepted relay is written to `stream-events` at the plan's pace, its lease renewed until its owner dies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from redis.asyncio import BlockingConnectionPool, Redis

from turngate.devstack.fleet import DevFleet
from turngate.dispatcher.relays import Relay
from turngate.dispatcher.service import DispatcherDeps, DispatcherHandler
from turngate.dispatcher.store import Held, LeaseStore
from turngate.runtime.clock import SystemClock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import InputRecord, Output, Position
from turngate.runtime.redis.client import server_replid
from turngate.runtime.redis.keys import LEASES, bucket_keys
from turngate.runtime.redis.registry import Toolsets, register_instance
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.base import Record
from turngate.schemas.codec import decode
from turngate.schemas.control import Control
from turngate.schemas.envelope import attempt_headers
from turngate.schemas.errors import Retryable
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame
from turngate.testing.scenarios import RelayPlan, Step
from turngate.testing.scripted import orders, result_of
from turngate.topology.keys import bucket_of, partition_of
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

T = TypeVar("T")

OWNER = "provider-side"
POLL_SECONDS = 0.2


@dataclass
class ProviderSide:
    """`plan_of`: what a relay writes. `pace`: what every wait of the plan is multiplied with."""

    fleet: DevFleet
    redis: Redis
    producer: AIOKafkaProducer
    plan_of: Callable[[Relay], RelayPlan]
    pace: float
    lease_ms: int
    handler: DispatcherHandler = field(init=False)
    commands: dict[str, SequenceCommand] = field(default_factory=dict[str, SequenceCommand])
    relays: int = 0
    frames: int = 0
    working: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _held: dict[Held, None] = field(default_factory=dict[Held, None])
    _replays: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _playing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @classmethod
    @asynccontextmanager
    async def running(
        cls, fleet: DevFleet, plan_of: Callable[[Relay], RelayPlan], *, pace: float, lease_ms: int
    ) -> AsyncGenerator[ProviderSide]:
        """Answers every sequence command and every tool order until left. Raises what failed meanwhile."""
        # Bounded: hundreds of relays ask at once.
        redis = Redis.from_pool(BlockingConnectionPool.from_url(fleet.stack.redis_url, max_connections=16))
        producer = AIOKafkaProducer(bootstrap_servers=fleet.stack.kafka_bootstrap, enable_idempotence=True)
        await producer.start()
        side = cls(fleet, redis, producer, plan_of, pace, lease_ms)
        leases = await side._prepare()
        working = side.working = [
            asyncio.create_task(work)
            for work in (
                side._consume("sequences", side._commanded), side._consume("tool-calls", side._ordered),
                side._renew(leases),
            )
        ]  # fmt: skip
        try:
            yield side
        finally:
            for task in [*working, *side._playing]:
                task.cancel()
            await asyncio.gather(*working, *side._playing, return_exceptions=True)
            await producer.stop()
            await redis.aclose()

    async def _prepare(self) -> LeaseStore:
        prefix, clock = self.fleet.plan.prefix, SystemClock()
        boot = await register_instance(self.redis, prefix, OWNER, clock.wall_ms())
        rows = json.loads((self.fleet.plan.folder / "endpoints.json").read_text())
        endpoints = [Endpoint.model_validate(row) for row in rows]
        deps = DispatcherDeps(
            scripts=Scripts(self.redis, prefix, "dispatcher"), toolsets=Toolsets(self.redis, prefix),
            endpoints={endpoint.name: endpoint for endpoint in endpoints},
            tenants=frozenset(self.fleet.plan.tenants.split(",")), relays=self,  # type: ignore[arg-type]
            clock=clock, metrics=Metrics(), owner=OWNER, boot=boot, lease_ms=self.lease_ms,
            replid=await server_replid(self.redis) or "unknown",
        )  # fmt: skip
        self.handler = DispatcherHandler(deps)
        await self.handler.start(PartitionStart(0, 1, {"sequences": Position(0)}))
        return LeaseStore(Scripts(self.redis, prefix, "relay"), OWNER, boot, self.lease_ms)

    def check(self) -> None:
        """Raises what has failed so far."""
        for task in [*self.working, *self._playing]:
            if task.done():
                task.result()

    # --- in and out --------------------------------------------------------------------------------------------------

    async def send(self, out: Output) -> None:
        topic = TOPICS[out.topic].full_name(self.fleet.plan.prefix)
        partition = out.partition if out.partition is not None else partition_of(out.key, self.fleet.plan.partitions)
        await self.producer.send(topic, out.value, out.key, partition, headers=list(out.headers))

    async def _consume(self, topic: str, handle: Callable[[list[InputRecord]], Awaitable[None]]) -> None:
        full = TOPICS[topic].full_name(self.fleet.plan.prefix)
        consumer = AIOKafkaConsumer(
            full, bootstrap_servers=self.fleet.stack.kafka_bootstrap, isolation_level="read_committed",
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        read_steadily(consumer)
        try:
            while True:
                for rows in (await consumer.getmany(timeout_ms=200, max_records=200)).values():
                    await handle(
                        [
                            InputRecord(topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                            for r in rows
                        ]
                    )
        finally:
            await consumer.stop()

    async def _commanded(self, records: list[InputRecord]) -> None:
        for record in records:
            command = decode(SequenceCommand, record.value)
            self.commands.setdefault(command.spec.operation_id, command)
        result = await until_ready(lambda: self.handler.step(records))
        for out in result.outputs:
            await self.send(out)
        await self.producer.flush()
        for call in result.after_commit:
            call()

    async def _ordered(self, records: list[InputRecord]) -> None:
        for order in orders(records):
            await self.send(result_of(order, f"result of {order.call_id}"))

    async def _renew(self, leases: LeaseStore) -> None:
        while True:
            for lost in await until_ready(lambda: leases.renew(list(self._held))):
                self._held.pop(lost, None)
            await asyncio.sleep(self.lease_ms / 4000)

    # --- relays ------------------------------------------------------------------------------------------------------

    def start(self, relays: Sequence[Relay]) -> None:
        """Where the dispatcher hands over what it has accepted."""
        for relay in relays:
            self._held[relay.held] = None
            self.relays += 1
            name = f"{relay.conversation} {relay.generation}.{relay.relay}"
            task = asyncio.create_task(self._play(relay), name=name)
            self._playing.add(task)
            task.add_done_callback(self._played)

    def _played(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._playing.discard(task)

    @property
    def idle(self) -> bool:
        """Whether every relay so far has written all it had to say."""
        return not self._playing

    @property
    def state(self) -> str:
        """For a report of what did not settle: who still has something to say."""
        return f"{self.relays} relays, playing: {sorted(task.get_name() for task in self._playing)[:8]}"

    async def _play(self, relay: Relay) -> None:
        plan = self.plan_of(relay)
        await self._write(relay, plan.steps)
        self._held.pop(relay.held, None)
        if plan.then.startswith("silent"):
            await self._expire(relay)
        if plan.then in ("replay", "resolve", "silent_replay"):
            replays = self._replays.setdefault(relay.operation_id, asyncio.Event())
            await self._until_unknown(relay)
            await (self._resolve(relay) if plan.then == "resolve" else self._replay(relay))
            if plan.late:
                await replays.wait()
                await self._write(relay, plan.late)

    async def _write(self, relay: Relay, steps: Sequence[Step]) -> None:
        for step in steps:
            await asyncio.sleep(step.wait_ms / 1000 * self.pace)
            self.frames += 1
            body = _frame(relay, step)
            await self.send(
                output(
                    "stream-events", body, tenant=relay.tenant, conversation=relay.conversation, role="dispatcher",
                    event_id=event_id("frame", relay.operation_id, self.frames),
                    headers=attempt_headers(relay.operation_id, relay.generation, relay.relay),
                )
            )  # fmt: skip
            if relay.relay > 1 and relay.operation_id in self._replays:
                self._replays[relay.operation_id].set()

    async def _expire(self, relay: Relay) -> None:
        """Its owner has been silent for as long as its lease: not waited for, once all it has said is written."""
        await self.producer.flush()
        leases = bucket_keys(self.fleet.plan.prefix, bucket_of(relay.key))[LEASES]
        await self.redis.zadd(leases, {relay.operation_id: 1}, xx=True)

    async def _until_unknown(self, relay: Relay) -> None:
        scripts = Scripts(self.redis, self.fleet.plan.prefix, OWNER)
        while True:
            bucket, operation = bucket_of(relay.key), relay.operation_id
            reply = await until_ready(partial(scripts.run, "reassembler/lookup_v1", bucket, 1, operation))
            if reply[1] == b"UNKNOWN":
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _replay(self, relay: Relay) -> None:
        """As whoever replays a generation under its idempotency key would command it."""
        first = self.commands[relay.operation_id]
        again = first.model_copy(update={"mode": "replay", "expected_generation": relay.generation})
        await self._order("sequences", again, relay, f"replay-{relay.operation_id}")

    async def _resolve(self, relay: Relay) -> None:
        """An operator's word."""
        control = Control(
            tenant=relay.tenant, conversation=relay.conversation, control_id=f"resolve-{relay.operation_id}",
            command="resolve_unknown", operation_id=relay.operation_id, generation=relay.generation,
            reason="seen at the provider", actor="operator",
        )  # fmt: skip
        await self._order("control", control, relay, control.control_id)

    async def _order(self, topic: str, record: Record, relay: Relay, ident: str) -> None:
        await self.send(
            output(
                topic, record, tenant=relay.tenant, conversation=relay.conversation, role="recovery",
                event_id=event_id(ident),
            )
        )  # fmt: skip


async def until_ready(call: Callable[[], Awaitable[T]]) -> T:
    """As a worker does: the same call again where Redis does not answer."""
    while True:
        try:
            return await call()
        except Retryable:
            await asyncio.sleep(POLL_SECONDS)


def _frame(relay: Relay, step: Step) -> BeginFrame | EventsFrame | EndFrame:
    address: dict[str, object] = {
        "tenant": relay.tenant, "conversation": relay.conversation, "operation_id": relay.operation_id,
        "generation": relay.generation, "relay": relay.relay,
    }  # fmt: skip
    if step.frame == "begin":
        begin: dict[str, object] = {
            "profile": relay.profile, "normaliser": relay.normaliser, "manifest_digest": relay.manifest_digest,
            "owner": OWNER, "boot": 1,
        }  # fmt: skip
        return BeginFrame.model_validate({**address, **begin})
    if step.frame == "events":
        events: dict[str, object] = {"profile": relay.profile, "first_seq": step.first_seq, "events": step.events}
        return EventsFrame.model_validate({**address, **events})
    end: dict[str, object] = {
        "cause": step.cause, "count": step.count, "status": step.status, "error_class": step.error_class,
        "evidence": step.evidence,
    }  # fmt: skip
    return EndFrame.model_validate({**address, **end})
