"""A fleet of real processes, once per module, and what a test does with it: ask, produce, wait, look, audit.

A module changes the fleet by a fixture `fleet_changes` of its own (fields of FleetPlan by name), and marks itself

    pytestmark = [pytest.mark.kafka, pytest.mark.asyncio(loop_scope="module")]
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import RecordMetadata

from turngate.cli.audit_input import read_cluster, read_receive_log
from turngate.devstack.base import Stack
from turngate.devstack.demo.toolset import TENANT, toolset
from turngate.devstack.demo.watch import Watch
from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.devstack.probe import http_ready
from turngate.devstack.supervisor import ProcessSpec, Supervisor
from turngate.domain.audit import AuditReport, audit
from turngate.schemas.base import Record
from turngate.schemas.blocks import BlockContent
from turngate.schemas.envelope import conversation_key
from turngate.schemas.quarantine import DeadLetter, Quarantined
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.turn import Turn
from turngate.topology.groups import ROLES, RoleSpec
from turngate.topology.keys import partition_of
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

PARTITIONS = 4
WAIT_SECONDS = 60.0
SETTLE_SECONDS = 30.0
POLL_SECONDS = 0.1
PRODUCE_BYTES_MAX = 16 * 1024 * 1024
EXECUTOR = "executor"
QUICK = {
    "TURNGATE_LEASE_MS": "3000",
    "TURNGATE_RENEW_MS": "800",
    "TURNGATE_RETRY_BASE_MS": "300",
    "TURNGATE_DRAIN_SECONDS": "3",
    "TURNGATE_SESSION_TIMEOUT_MS": "6000",
}
"""Shorter waits than production's."""

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int, int]
"""Logical topic name, partition, offset."""


@dataclass
class FleetUnderTest:
    """A running fleet. Topics are named logically ("turns") everywhere."""

    fleet: DevFleet
    watch: Watch
    admin: AIOKafkaAdminClient
    producer: AIOKafkaProducer
    asked: int = field(default=0)

    # --- the fleet -------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> FleetPlan:
        return self.fleet.plan

    @property
    def supervisor(self) -> Supervisor:
        """To kill, stop and restart roles by name."""
        return self.fleet.supervisor

    @property
    def roles(self) -> tuple[RoleSpec, ...]:
        """The roles that run."""
        return tuple(ROLES[name] for name in self.plan.roles)

    def pids(self) -> dict[str, int]:
        """Role -> process id of its newest start."""
        return {name: self.supervisor.pid(name) for name in self.plan.roles if self.supervisor.running(name)}

    async def ready(self) -> dict[str, bool]:
        """Role -> whether /readyz answers 200."""
        urls = [f"{self.fleet.url(name)}/readyz" for name in self.plan.roles]
        answers = await asyncio.gather(*(asyncio.to_thread(http_ready, url) for url in urls))
        return dict(zip(self.plan.roles, answers, strict=True))

    async def all_ready(self) -> None:
        """Returns once every role is; a role is unready for moments where Kafka or Redis keeps it waiting."""
        answers: dict[str, bool] = {}

        async def ready() -> bool:
            nonlocal answers
            answers = await self.ready()
            return all(answers.values())

        await until(ready, WAIT_SECONDS, lambda: f"not ready: {answers}")

    async def start_executor(self) -> None:
        """The demo's tools as a process of their own, and their toolset (tenant `demo`)."""
        env = {"TURNGATE_KAFKA": self.fleet.stack.kafka_bootstrap, "TURNGATE_TOPIC_PREFIX": self.plan.prefix}
        argv = (sys.executable, "-m", "turngate.devstack.demo.tools")
        self.supervisor.start(ProcessSpec(EXECUTOR, argv, self.plan.folder / f"{EXECUTOR}.log", env))
        await self.watch.send("toolsets", toolset(), TENANT, "toolsets")

    # --- conversations ---------------------------------------------------------------------------------------------

    def on_partition(self, partition: int, prefix: str, tenant: str = TENANT) -> str:
        """A conversation whose key belongs to a partition."""
        names = (f"{prefix}-{number}" for number in range(10_000))
        wanted = (name for name in names if self.partition(tenant, name) == partition)
        return next(wanted)

    def partition(self, tenant: str, conversation: str) -> int:
        return partition_of(conversation_key(tenant, conversation), self.plan.partitions)

    async def ask(
        self,
        conversation: str,
        text: str,
        *,
        tenant: str = TENANT,
        endpoint: str = "openai",
        tools: bool = False,
        request_id: str | None = None,
    ) -> TurnRequest:
        """Sends a turn request as a platform would; `tools` gives the model the demo's toolset."""
        self.asked += 1
        request = TurnRequest(
            tenant=tenant,
            conversation=conversation,
            request_id=request_id if request_id is not None else f"ask-{self.asked}",
            blocks=(NewBlock(role="user", content=BlockContent(text=text)),),
            options=TurnOptions(
                endpoint=endpoint, model="sim-1", max_output_tokens=256,
                toolset_digest=toolset().toolset_digest if tools else None,
            ),
        )  # fmt: skip
        await self.watch.send("turn-requests", request, tenant, conversation)
        return request

    async def answered(self, conversation: str, revision: int, *, tenant: str = TENANT) -> Turn:
        """The committed assistant turn of a revision."""

        def found() -> list[Turn]:
            turns = (turn for turn in self.watch.turns(conversation) if turn.tenant == tenant)
            return [turn for turn in turns if turn.kind == "assistant" and turn.revision == revision]

        await self.watch.until(f"{tenant}/{conversation}: revision {revision}", lambda: bool(found()), WAIT_SECONDS)
        return found()[0]

    # --- records ---------------------------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> Place:
        """Straight into a topic; without `partition` to the key's. Raises what the broker refuses with."""
        if partition is None:
            partition = partition_of(key or b"", self.plan.partitions)
        sent: RecordMetadata = await self.producer.send_and_wait(
            TOPICS[topic].full_name(self.plan.prefix), value, key=key, partition=partition, headers=list(headers)
        )
        return (topic, sent.partition, sent.offset)

    async def dead_letters(self) -> list[DeadLetter]:
        return [record for record in await self._read("dead-letters") if isinstance(record, DeadLetter)]

    async def quarantined(self) -> list[Quarantined]:
        return [record for record in await self._read("quarantine") if isinstance(record, Quarantined)]

    async def _read(self, topic: str) -> list[Record]:
        """Every committed record of a topic; one that is none of ours fails the test."""
        found = await read_cluster(self.fleet.stack.kafka_bootstrap, self.plan.prefix, (topic,))
        problems = [(entry.place, entry.problem) for entry in found.committed if entry.record is None]
        assert problems == []
        return [entry.record for entry in found.committed if entry.record is not None]

    # --- lag -------------------------------------------------------------------------------------------------------

    async def lag(self) -> dict[tuple[str, str, int], int]:
        """Records behind what is committed, by (role, topic, partition), only where there are any.

        A committed offset may lie below the end with nothing left to read: commit markers and aborted records count as
        offsets. So what lies between is read, at the isolation of the role.
        """
        found: dict[tuple[str, str, int], int] = {}
        for isolation in ("read_committed", "read_uncommitted"):
            roles = [role for role in self.roles if role.isolation == isolation]
            if roles:
                found |= await self._lag(roles, isolation)
        return found

    async def _lag(self, roles: Sequence[RoleSpec], isolation: str) -> dict[tuple[str, str, int], int]:
        prefix = self.plan.prefix
        committed: dict[tuple[str, TopicPartition], int] = {}
        for role in roles:
            names = [TOPICS[name].full_name(prefix) for name in role.inputs]
            places = [TopicPartition(name, number) for name in names for number in range(self.plan.partitions)]
            offsets = await self.admin.list_consumer_group_offsets(role.group(prefix), partitions=places)
            committed |= {(role.name, place): at.offset for place, at in offsets.items()}
        starts: dict[TopicPartition, int] = {}
        for (_, place), offset in committed.items():
            starts[place] = min(offset, starts.get(place, offset))
        visible = await _offsets_behind(self.fleet.stack.kafka_bootstrap, starts, isolation)
        logical = {spec.full_name(prefix): spec.name for spec in TOPICS.values()}
        counts = {
            (role, logical[place.topic], place.partition): sum(offset >= at for offset in visible.get(place, ()))
            for (role, place), at in committed.items()
        }
        return {name: count for name, count in counts.items() if count}

    async def no_lag(self, seconds: float = WAIT_SECONDS) -> None:
        """Returns once every group has read everything; fails naming who has not."""
        behind: dict[tuple[str, str, int], int] = {}

        async def caught_up() -> bool:
            nonlocal behind
            behind = await self.lag()
            return not behind

        await until(caught_up, seconds, lambda: f"still behind: {behind}; running: {self.pids()}")

    # --- audit -----------------------------------------------------------------------------------------------------

    async def audit(self, *, expect_settled: bool = True) -> AuditReport:
        """The audit of everything in the topics against the simulator's receive log; again while work is on its way."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            found = await read_cluster(self.fleet.stack.kafka_bootstrap, self.plan.prefix)
            report = audit(found.log(), read_receive_log(self.fleet.receive_log), expect_settled=expect_settled)
            if not report.refuted or time.monotonic() > deadline or set(report.refuted) - {"I5", "I6", "I7"}:
                return report
            await asyncio.sleep(POLL_SECONDS * 5)

    # --- life ------------------------------------------------------------------------------------------------------

    @classmethod
    async def opened(cls, resources: AsyncExitStack, stack: Stack, plan: FleetPlan) -> Self:
        """Starts everything; `resources` ends it."""
        fleet = await resources.enter_async_context(DevFleet(stack, plan))
        watch = await resources.enter_async_context(Watch(stack.kafka_bootstrap, plan.prefix))
        admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka_bootstrap)
        await admin.start()
        resources.push_async_callback(admin.close)
        producer = AIOKafkaProducer(bootstrap_servers=stack.kafka_bootstrap, max_request_size=PRODUCE_BYTES_MAX)
        await producer.start()
        resources.push_async_callback(producer.stop)
        return cls(fleet, watch, admin, producer)


async def until(
    condition: Callable[[], Awaitable[bool]], seconds: float, told: Callable[[], str] = lambda: "not yet"
) -> None:
    """Polls a condition; fails with what `told` says."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, told()
        await asyncio.sleep(POLL_SECONDS)


async def _offsets_behind(
    kafka: str, starts: Mapping[TopicPartition, int], isolation: str
) -> dict[TopicPartition, list[int]]:
    """Offsets of the records a reader that begins at `starts` would be given, up to the ends of now."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, group_id=None, enable_auto_commit=False, isolation_level=isolation,
        auto_offset_reset="earliest", max_partition_fetch_bytes=PRODUCE_BYTES_MAX,
    )  # fmt: skip
    await consumer.start()
    read_steadily(consumer)
    try:
        ends = await consumer.end_offsets(list(starts))
        open_places = {place for place, start in starts.items() if start < ends[place]}
        found: dict[TopicPartition, list[int]] = {}
        if not open_places:
            return found
        consumer.assign(list(open_places))
        for place in open_places:
            consumer.seek(place, starts[place])
        deadline = time.monotonic() + WAIT_SECONDS
        while open_places:
            assert time.monotonic() < deadline, f"cannot be read to the end: {sorted(open_places)}"
            for place, rows in (await consumer.getmany(*open_places, timeout_ms=100)).items():
                found.setdefault(place, []).extend(row.offset for row in rows if row.offset < ends[place])
            # A position passes control records too.
            open_places -= {place for place in open_places if await consumer.position(place) >= ends[place]}
        return found
    finally:
        await consumer.stop()


@pytest.fixture(scope="module")
def fleet_changes() -> dict[str, Any]:
    """What the module's fleet has that differs: fields of FleetPlan. A module defines its own."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(
    request: pytest.FixtureRequest,
    stack: Stack,
    tmp_path_factory: pytest.TempPathFactory,
    fleet_changes: dict[str, Any],
) -> AsyncIterator[FleetUnderTest]:
    """The module's fleet, on topics of its own."""
    module = re.sub(r"[^a-z0-9]+", "-", str(request.module.__name__).rpartition(".")[2].lower())
    plan = FleetPlan(
        folder=tmp_path_factory.mktemp(module), prefix=f"e{secrets.token_hex(3)}.{module}", partitions=PARTITIONS,
        tenants="demo,other", env=QUICK,
    )  # fmt: skip
    async with AsyncExitStack() as resources:
        yield await FleetUnderTest.opened(resources, stack, replace(plan, **fleet_changes))


@pytest.fixture
def wait_until() -> Callable[..., Awaitable[None]]:
    return until
