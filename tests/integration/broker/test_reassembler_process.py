"""A fleet whose reassembler stops between the canonical commit and its transaction; and with hundreds of open streams.

The reassembler is a process of its own kind (stopping_reassembler.py): it signs its turns, so that one can tell whose
bytes were published.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata
from redis.asyncio import Redis

from turngate.cli.audit_input import read_cluster, read_receive_log
from turngate.devstack.base import Stack
from turngate.devstack.demo.toolset import TENANT
from turngate.devstack.demo.watch import Watch
from turngate.devstack.fleet import COMMIT_PATH, DevFleet, FleetPlan
from turngate.devstack.ports import free_ports
from turngate.devstack.provider_sim.script import Fault, Match, Plan, Rule, Script
from turngate.devstack.supervisor import ProcessSpec
from turngate.domain.audit import audit
from turngate.domain.audit.report import Status
from turngate.runtime.redis.keys import META, TURNS, bucket_keys
from turngate.schemas.blocks import BlockContent
from turngate.schemas.codec import encode, schema_name
from turngate.schemas.envelope import conversation_key
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.stream import BeginFrame
from turngate.schemas.turn import Turn
from turngate.topology.groups import ROLES
from turngate.topology.keys import bucket_of, partition_of
from turngate.topology.topics import TOPICS

pytestmark = [
    pytest.mark.real, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)
]  # fmt: skip

PARTITIONS = 4
WAIT_SECONDS = 60.0
SETTLE_SECONDS = 30.0
OPEN_STREAMS = 300
METADATA_MAX = 1024
HELD = "[held]"
PROGRAM = Path(__file__).with_name("stopping_reassembler.py")
QUICK = {
    "TURNGATE_LEASE_MS": "3000", "TURNGATE_RENEW_MS": "800", "TURNGATE_RETRY_BASE_MS": "300",
    "TURNGATE_DRAIN_SECONDS": "3", "TURNGATE_SESSION_TIMEOUT_MS": "6000",
}  # fmt: skip
STALLED = Plan(text=("A ", "B ", "C"), fault=Fault(kind="stall", after_events=2))
SCRIPT = Script(rules=(Rule(match=Match(contains=HELD), plan=STALLED),))
"""An answer that begins and then stays open; anything else is an echo."""


@dataclass
class Line:
    """The commit path as processes, its reassembler ours."""

    fleet: DevFleet
    watch: Watch
    armed: Path
    asked: count[int] = field(default_factory=count)

    @property
    def prefix(self) -> str:
        return self.fleet.plan.prefix

    @property
    def reassembler(self) -> int:
        """Its process id."""
        return self.fleet.supervisor.pid("reassembler")

    @property
    def runs(self) -> bool:
        """Whether there is a reassembler."""
        supervisor = self.fleet.supervisor
        return "reassembler" in supervisor.names and supervisor.running("reassembler")

    async def start_reassembler(self, number: signal.Signals) -> None:
        """Under the instance id of the one before, ready when this returns. `number`: see the program."""
        (port,) = free_ports(1)
        env = self.fleet.environment("reassembler-0") | {"TURNGATE_HTTP_PORT": str(port)}
        argv = (sys.executable, str(PROGRAM), str(self.armed), number.name)
        log, url = self.fleet.plan.folder / "reassembler.log", f"http://127.0.0.1:{port}/readyz"
        self.fleet.supervisor.start(ProcessSpec("reassembler", argv, log, env, ready_url=url))
        await self.fleet.supervisor.wait_ready("reassembler")

    async def ask(self, conversation: str, text: str) -> None:
        options = TurnOptions(endpoint="openai", model="sim-1", max_output_tokens=64, toolset_digest=None)
        block = NewBlock(role="user", content=BlockContent(text=text))
        request = TurnRequest(
            tenant=TENANT, conversation=conversation, request_id=f"ask-{next(self.asked)}", blocks=(block,),
            options=options,
        )  # fmt: skip
        await self.watch.send("turn-requests", request, TENANT, conversation)

    async def stopped(self, number: signal.Signals, conversation: str, text: str) -> None:
        """Asks, and returns once the reassembler has committed the answer in Redis and stopped there."""
        if not self.runs:
            await self.start_reassembler(number)
        self.armed.touch()
        await self.ask(conversation, text)
        await until("a canonical commit", self._disarmed)
        if number == signal.SIGKILL:
            await self.fleet.supervisor.wait_exit("reassembler", timeout_seconds=WAIT_SECONDS)

    async def _disarmed(self) -> bool:
        return not self.armed.exists()

    async def answered(self, conversation: str, revision: int) -> Turn:
        """The only assistant turn of a revision that committed readers are given."""
        await self.watch.until(
            f"revision {revision} of {conversation}",
            lambda: any(turn.revision == revision for turn in self.watch.turns(conversation)), WAIT_SECONDS,
        )  # fmt: skip
        (turn,) = [turn for turn in self.watch.turns(conversation) if turn.revision == revision]
        assert turn.kind == "assistant"
        return turn

    async def stored(self, conversation: str, revision: int) -> bytes | None:
        """The turn's bytes in Redis."""
        key = conversation_key(TENANT, conversation)
        field_name = f"{key.decode()}|{revision}"
        async with self._redis() as redis:
            found = await redis.hget(bucket_keys(self.prefix, bucket_of(key))[TURNS], field_name)
        assert found is None or isinstance(found, bytes)
        return found

    async def reconciled(self, conversation: str) -> bool:
        """Whether recovery has opened the conversation's bucket on the Redis server of now."""
        key = bucket_keys(self.prefix, bucket_of(conversation_key(TENANT, conversation)))[META]
        async with self._redis() as redis:
            server = (await redis.info("replication"))["master_replid"]
            return (await redis.hget(key, "replid")) == str(server).encode()

    def _redis(self) -> Redis:
        """A client of its own for each look: one that outlives a restart holds connections to the old server."""
        return Redis.from_url(self.fleet.stack.redis_url)

    async def settled(self) -> None:
        """Fails unless the audit of everything so far proves one turn per revision and refutes nothing."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            found = await read_cluster(self.fleet.stack.kafka_bootstrap, self.prefix)
            report = audit(found.log(), read_receive_log(self.fleet.receive_log), expect_settled=True)
            if report.refuted == () or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        assert report.refuted == (), [breach.why for result in report.results for breach in result.breaches]
        assert report.of("I3").status is Status.PROVED


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"did not see: {what}"
        await asyncio.sleep(0.05)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def line(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Line]:
    folder = tmp_path_factory.mktemp("stopping")
    plan = FleetPlan(
        folder=folder, prefix=f"b{secrets.token_hex(3)}.stopping", partitions=PARTITIONS,
        roles=[role for role in COMMIT_PATH if role != "reassembler"], script=SCRIPT, env=QUICK,
    )  # fmt: skip
    async with AsyncExitStack() as resources:
        fleet = await resources.enter_async_context(DevFleet(stack, plan))
        watch = await resources.enter_async_context(Watch(stack.kafka_bootstrap, plan.prefix))
        yield Line(fleet, watch, folder / "armed")


async def test_a_successor_publishes_the_bytes_of_a_commit_whose_reply_was_lost(line: Line) -> None:
    await line.start_reassembler(signal.SIGKILL)
    first = line.reassembler
    await line.stopped(signal.SIGKILL, "killed", "How is the weather?")
    stored = await line.stored("killed", 2)
    assert stored is not None
    assert line.watch.turns("killed")[1:] == [], "killed before anything was published"

    await line.start_reassembler(signal.SIGSTOP)
    turn = await line.answered("killed", 2)
    assert encode(turn) == stored
    assert turn.receipt is not None
    assert turn.receipt.terminal == f"built by {first}" != f"built by {line.reassembler}"
    await line.ask("killed", "And tomorrow?")
    following = await line.answered("killed", 4)
    assert following.receipt is not None
    assert following.receipt.terminal == f"built by {line.reassembler}"
    await line.settled()


@pytest.mark.parametrize("reconciled", [False, True], ids=["at-once", "after-reconcile"])
@pytest.mark.parametrize("keep_data", [True, False], ids=["kept", "lost"])
async def test_redis_restarts_before_the_transaction_and_the_conversation_goes_on(
    line: Line, keep_data: bool, reconciled: bool
) -> None:
    conversation = f"restarted-{keep_data}-{reconciled}"
    await line.stopped(signal.SIGSTOP, conversation, "How is the weather?")
    try:
        await line.fleet.stack.restart_redis(False, keep_data)
        if reconciled:
            await until("the reconcile", lambda: line.reconciled(conversation))
        assert line.watch.turns(conversation)[1:] == [], "stopped before anything was published"
    finally:
        line.fleet.supervisor.send("reassembler", signal.SIGCONT)
    await line.answered(conversation, 2)
    await line.ask(conversation, "And tomorrow?")
    await line.answered(conversation, 4)
    assert [turn.revision for turn in line.watch.turns(conversation)] == [1, 2, 3, 4]
    await line.settled()


async def test_the_metadata_of_hundreds_of_open_streams_is_one_number(line: Line) -> None:
    if not line.runs:
        await line.start_reassembler(signal.SIGSTOP)
    prefix = line.prefix
    place = TopicPartition(TOPICS["stream-events"].full_name(prefix), 1)
    names = (f"open-{number}" for number in count())
    first, *held = islice((name for name in names if partition(name) == place.partition), OPEN_STREAMS + 1)
    # A role that a reconcile has fenced only notices at its next transaction: better not in the middle of the crowd.
    await line.ask(first, "Is everybody there?")
    await line.answered(first, 2)
    for name in held:
        await line.ask(name, f"Say it. {HELD}")

    def begins() -> list[int]:
        """Where the held streams began; each of them stays open."""
        raws = [raw for topic, raw in line.watch.raw if topic == "stream-events" and raw.key in keys]
        return [raw.offset for raw in raws if schema_name(raw.value) == BeginFrame.SCHEMA + ".v1"]

    keys = {conversation_key(TENANT, name) for name in held}
    await line.watch.until("hundreds of streams", lambda: len(begins()) == OPEN_STREAMS, WAIT_SECONDS)
    admin = AIOKafkaAdminClient(bootstrap_servers=line.fleet.stack.kafka_bootstrap)
    await admin.start()
    try:
        committed = OffsetAndMetadata(0, "")

        async def emitted() -> bool:
            nonlocal committed
            group = ROLES["reassembler"].group(prefix)
            committed = (await admin.list_consumer_group_offsets(group, partitions=[place]))[place]
            return int(committed.metadata or "0") > max(begins())

        await until("all of them in a committed transaction", emitted)
    finally:
        await admin.close()
    assert committed.offset == min(begins()), "the oldest frame that an open stream needs"
    assert committed.metadata.isdigit()
    assert len(committed.metadata) <= METADATA_MAX
    print(f"{OPEN_STREAMS} open streams: offset {committed.offset}, metadata {committed.metadata!r}")


def partition(conversation: str) -> int:
    return partition_of(conversation_key(TENANT, conversation), PARTITIONS)
