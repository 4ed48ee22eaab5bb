"""Thousands of streams through three reassemblers that are killed, stopped, rebalanced and upgraded all the time.

The same streams go through one undisturbed reassembler first: the disturbed ones must commit the same digests and give
the same verdicts. `make chaos` runs it; TURNGATE_TEST_CHAOS_SECONDS, _STREAMS and _SEED make it longer, larger, or
repeat a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from redis.asyncio import Redis

from turngate.cli.audit_input import Collected, read_cluster, write_dump
from turngate.devstack.demo.toolset import TENANT, toolset
from turngate.devstack.fleet import DevFleet, EndpointPlan, FleetPlan
from turngate.devstack.ports import free_ports
from turngate.devstack.supervisor import ProcessSpec
from turngate.dispatcher import service as dispatcher
from turngate.dispatcher.relays import Relay
from turngate.domain.audit import AuditReport, audit
from turngate.runtime.outbound import output
from turngate.runtime.redis.keys import TURNS, bucket_keys
from turngate.schemas.blocks import BlockContent
from turngate.schemas.codec import encode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.quarantine import DeadLetter, Quarantined
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn, turn_digest
from turngate.testing.dialects import PROFILES
from turngate.testing.provider_side import ProviderSide
from turngate.testing.scenarios import RelayPlan, kind_of, plan, profile_of
from turngate.testing.subscriber import Subscriber
from turngate.topology.groups import ROLES
from turngate.topology.keys import bucket_of
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

STREAMS = int(os.environ.get("TURNGATE_TEST_CHAOS_STREAMS", "2000"))
SECONDS = float(os.environ.get("TURNGATE_TEST_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("TURNGATE_TEST_CHAOS_SEED", secrets.randbelow(10**6)))
CALM_SECONDS = 12.0
"""How long asking takes in the undisturbed run."""
SETTLE_SECONDS = 120.0

pytestmark = [
    pytest.mark.real, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600 + 4 * SECONDS),
    pytest.mark.skipif("TURNGATE_TEST_CHAOS_SECONDS" not in os.environ, reason="takes minutes: make chaos"),
]  # fmt: skip

WORKERS = ("reassembler-0", "reassembler-1", "reassembler-2")
TICK_SECONDS = 2.0
VISIT_SECONDS = 0.5
WORK_SECONDS = 4.0
STOP_SECONDS = 30.0
UPGRADE_SECONDS = 5.0
LEASE_MS = 60_000
QUICK = {
    "TURNGATE_LEASE_MS": str(LEASE_MS), "TURNGATE_RENEW_MS": "15000", "TURNGATE_RETRY_BASE_MS": "300",
    "TURNGATE_DRAIN_SECONDS": "3", "TURNGATE_SESSION_TIMEOUT_MS": "6000",
}  # fmt: skip
ADAPTED = ("openai", "openai-compat", "anthropic")
"""Profiles that an adapter renders for. The others' requests are rendered as openai-compat; their streams are read by
the normaliser that the manifest pins, which is all that a reassembler knows of them."""
ENDPOINTS = tuple(
    EndpointPlan(name, "openai-chat" if name != "anthropic" else name, profile=name if name in ADAPTED else ADAPTED[1])
    for name in PROFILES
)
PROGRAM = Path(__file__).with_name("rolling_reassembler.py")
BUILDS = ("1", "2")


def name_of(number: int) -> str:
    return f"stream-{number}"


def number_of(conversation: str) -> int:
    return int(conversation.rpartition("-")[2])


@dataclass
class Progress:
    """Which conversations have come to their end, as a committed reader sees it."""

    fleet: DevFleet
    done: set[int] = field(default_factory=set)

    async def follow(self) -> None:
        names = [TOPICS[name].full_name(self.fleet.plan.prefix) for name in ("turns", "session-events")]
        consumer = AIOKafkaConsumer(
            *names, bootstrap_servers=self.fleet.stack.kafka_bootstrap, isolation_level="read_committed",
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        read_steadily(consumer)
        try:
            while True:
                for rows in (await consumer.getmany(timeout_ms=200)).values():
                    for row in rows:
                        self._note(row.value)
        finally:
            await consumer.stop()

    def _note(self, value: bytes) -> None:
        if b'"Turn.v1"' in value:
            turn = json.loads(value)
            if turn["kind"] == "tool" or (turn["kind"] == "assistant" and not turn.get("toolEdges")):
                self.done.add(number_of(turn["conversation"]))
        elif b'"request_end"' in value:
            event = json.loads(value)
            if event["status"] != "completed" and event.get("retryInMs") is None:
                self.done.add(number_of(event["conversation"]))

    async def settled(self, side: ProviderSide) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while len(self.done) < STREAMS or not side.idle:
            side.check()
            if time.monotonic() > deadline:
                missing = sorted(set(range(STREAMS)) - self.done)
                for worker in set(WORKERS) & set(self.fleet.supervisor.names):
                    self.fleet.supervisor.send(worker, signal.SIGUSR1)  # their logs tell where every task stands
                kinds = Counter(kind_of(SEED, number) for number in missing)
                write_dump(
                    self.fleet.plan.folder / "dump",
                    await read_cluster(self.fleet.stack.kafka_bootstrap, self.fleet.plan.prefix),
                )
                raise AssertionError(f"{told()}{len(missing)} unsettled: {kinds}, e.g. {missing[:8]}; {side.state}")
            await asyncio.sleep(0.2)


def told() -> str:
    return f"TURNGATE_TEST_CHAOS_SEED={SEED} TURNGATE_TEST_CHAOS_STREAMS={STREAMS}: "


@dataclass
class Chaos:
    """Kills a worker or rebalances the group every two seconds, stops one for half a minute, upgrades one after the
    other and back."""

    fleet: DevFleet
    ports: dict[str, int]
    random: Random
    builds: dict[str, str] = field(default_factory=lambda: dict.fromkeys(WORKERS, BUILDS[0]))
    started: dict[str, float] = field(default_factory=dict)
    stopped: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _armed: dict[str, Path] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.fleet.plan.folder / "builds.jsonl"

    def start(self, worker: str) -> None:
        folder, port = self.fleet.plan.folder, self.ports[worker]
        self.started[worker] = time.monotonic()
        env = self.fleet.environment(worker) | {"TURNGATE_HTTP_PORT": str(port)}
        argv = (sys.executable, str(PROGRAM), self.builds[worker], str(folder / f"{worker}.armed"), str(self.log))
        url = f"http://127.0.0.1:{port}/readyz"
        self.fleet.supervisor.start(ProcessSpec(worker, argv, folder / f"{worker}.log", env, ready_url=url))

    async def run(self, seconds: float) -> None:
        """For so long, and until everything has been asked; then all workers run on until it is over."""
        keeping = asyncio.create_task(self._keep_running())
        try:
            await self._disturb(seconds)
            await asyncio.wait([keeping, asyncio.create_task(self.over.wait())], return_when="FIRST_COMPLETED")
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _disturb(self, seconds: float) -> None:
        working = [
            asyncio.create_task(work)
            for work in (self._kills(), self._visits(), self._upgrades(), self._stop_one(seconds))
        ]  # fmt: skip
        try:
            await asyncio.wait([*working, asyncio.create_task(self._enough(seconds))], return_when="FIRST_COMPLETED")
            for task in working:
                if task.done():
                    task.result()
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            self._continue()
            for armed in self._armed.values():
                armed.unlink(missing_ok=True)

    async def _enough(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.asked.wait()

    async def _keep_running(self) -> None:
        """Starts again whoever has died: who killed itself after a commit, with the other build."""
        supervisor = self.fleet.supervisor
        while True:
            for worker in WORKERS:
                if not supervisor.running(worker):
                    armed = self._armed.pop(worker, None)
                    if armed is not None and not armed.exists():
                        self.builds[worker] = BUILDS[1 - BUILDS.index(self.builds[worker])]
                        self.counts["upgraded"] += 1
                    elif armed is not None:
                        self._armed[worker] = armed
                    self.start(worker)
            await asyncio.sleep(0.05)

    async def _kills(self) -> None:
        """Every other tick somebody who has had time to work is killed."""
        while True:
            await asyncio.sleep(2 * TICK_SECONDS)
            young = time.monotonic() - WORK_SECONDS
            victims = [name for name in WORKERS if name != self.stopped and self.started[name] < young]
            if victims:
                victim = self.random.choice(victims)
                self.started[victim] = time.monotonic()
                self.fleet.supervisor.send(victim, signal.SIGKILL)
                self.counts["killed"] += 1

    async def _visits(self) -> None:
        """At the ticks between, somebody joins and leaves, which rebalances everybody twice."""
        await asyncio.sleep(TICK_SECONDS)
        while True:
            begun = time.monotonic()
            await self._visit()
            await asyncio.sleep(max(0.0, begun + 2 * TICK_SECONDS - time.monotonic()))

    async def _visit(self) -> None:
        """Somebody joins the group, is given partitions, and leaves again without a word about them."""
        role = ROLES["reassembler"]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.fleet.stack.kafka_bootstrap, group_id=role.group(self.fleet.plan.prefix),
            partition_assignment_strategy=(RangePartitionAssignor,), enable_auto_commit=False,
            session_timeout_ms=6_000, rebalance_timeout_ms=6_000,
        )  # fmt: skip
        consumer.subscribe([TOPICS[name].full_name(self.fleet.plan.prefix) for name in role.inputs])
        starting = asyncio.create_task(consumer.start())
        try:
            await asyncio.shield(starting)
            self.counts["visits"] += bool(consumer.assignment())
            await asyncio.sleep(VISIT_SECONDS)
        finally:
            # Also where the visit is called off: a visitor who stayed would keep its partitions for good.
            await asyncio.gather(starting, return_exceptions=True)
            await consumer.stop()

    async def _upgrades(self) -> None:
        while True:
            await asyncio.sleep(UPGRADE_SECONDS)
            for worker in self.random.sample(WORKERS, len(WORKERS)):
                if worker not in self._armed and worker != self.stopped:
                    self._armed[worker] = self.fleet.plan.folder / f"{worker}.armed"
                    self._armed[worker].touch()
                    break

    async def _stop_one(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 8)
            running = [name for name in WORKERS if self.fleet.supervisor.running(name)]
            if not running:
                continue
            self.stopped = self.random.choice(running)
            self.fleet.supervisor.send(self.stopped, signal.SIGSTOP)
            await asyncio.sleep(STOP_SECONDS)
            self._continue()
            self.counts["stopped"] += 1

    def _continue(self) -> None:
        if self.stopped and self.fleet.supervisor.running(self.stopped):
            self.fleet.supervisor.send(self.stopped, signal.SIGCONT)
        self.stopped = ""


@dataclass
class Run:
    """What is left of a run."""

    prefix: str
    seconds: dict[str, int]
    found: Collected
    counts: Counter[str]
    builds: list[dict[str, str]] = field(default_factory=list)

    def turns(self) -> list[Turn]:
        return [entry.record for entry in self.found.committed if isinstance(entry.record, Turn)]

    def outcomes(self) -> dict[int, object]:
        """Number -> digests of its turns, or how its attempts ended."""
        ends: dict[int, dict[int, object]] = {}
        for entry in self.found.committed:
            event = entry.record
            if entry.topic == "session-events" and isinstance(event, SessionEvent) and event.type == "request_end":
                ends.setdefault(number_of(event.conversation), {})[event.generation] = (event.status, event.reason)
        digests: dict[int, dict[tuple[int, str], str]] = {}
        for turn in self.turns():
            digests.setdefault(number_of(turn.conversation), {})[turn.revision, turn.kind] = turn_digest(turn)
        return {number: (sorted(digests.get(number, {}).items()), ends.get(number)) for number in range(STREAMS)}


async def ask_all(side: ProviderSide, seconds: float) -> None:
    """Number 0 first: it stays open as long as the others come."""
    started = time.monotonic()
    for number in range(STREAMS):
        await asyncio.sleep(max(0.0, started + seconds * number / STREAMS - time.monotonic()))
        request = TurnRequest(
            tenant=TENANT, conversation=name_of(number), request_id=f"ask-{number}",
            blocks=(NewBlock(role="user", content=BlockContent(text="How is the weather?")),),
            options=TurnOptions(
                endpoint=profile_of(number), model="m", max_output_tokens=256, auto_continue=False,
                toolset_digest=toolset().toolset_digest,
            ),
        )  # fmt: skip
        await side.send(
            output(
                "turn-requests", request, tenant=TENANT, conversation=name_of(number), role="platform",
                event_id=request.request_id,
            )
        )  # fmt: skip


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    """Before the fleet is: else workers would be started again that nobody waits for."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def run(stack, folder: Path, *, disturbed: bool) -> Run:
    """All streams through a fleet of their own."""
    seconds = SECONDS if disturbed else CALM_SECONDS
    clock = [("", time.monotonic())]

    def passed(what: str) -> None:
        clock.append((what, time.monotonic()))

    def plan_of(relay: Relay) -> RelayPlan:
        number = number_of(relay.conversation)
        return plan(SEED, number, relay.generation, relay.relay, long_frames=0 if number else int(SECONDS * 2))

    async with AsyncExitStack() as resources:
        fleet = DevFleet(
            stack,
            FleetPlan(
                folder=folder, prefix=f"c{secrets.token_hex(3)}.chaos", tenants=TENANT, endpoints=ENDPOINTS, env=QUICK,
                roles=("recovery", "validator", "ledger"),
            ),
        )  # fmt: skip
        await resources.enter_async_context(fleet)
        ports = dict(zip(WORKERS, free_ports(len(WORKERS)), strict=True))
        chaos = Chaos(fleet, ports, Random(SEED))
        for worker in WORKERS if disturbed else WORKERS[:1]:
            chaos.start(worker)
            await fleet.supervisor.wait_ready(worker)
        side = await resources.enter_async_context(
            ProviderSide.running(fleet, plan_of, pace=1.0 if disturbed else CALM_SECONDS / SECONDS, lease_ms=LEASE_MS)
        )
        declared = output(
            "toolsets", toolset(), tenant=TENANT, conversation="toolsets", role="platform", event_id="toolset"
        )
        await side.send(declared)
        progress = Progress(fleet)
        following = asyncio.create_task(progress.follow())
        resources.callback(following.cancel)
        passed("started")
        disturbing = [asyncio.create_task(chaos.run(seconds))] if disturbed else []
        resources.push_async_callback(ended, disturbing)
        await ask_all(side, seconds)
        chaos.asked.set()
        passed("asked")
        await progress.settled(side)
        passed("settled")
        chaos.over.set()
        await asyncio.gather(*disturbing)
        found = await read_cluster(stack.kafka_bootstrap, fleet.plan.prefix)
        passed("read")
    chaos.counts |= Counter(relays=side.relays, frames=side.frames)
    builds = [json.loads(line) for line in chaos.log.read_text().splitlines()] if chaos.log.exists() else []
    took = {what: round(at - before) for (_, before), (what, at) in pairwise(clock)}
    return Run(fleet.plan.prefix, took, found, chaos.counts, builds)


@pytest.fixture(scope="module", autouse=True)
def pinned_normalisers():
    """Manifests pin the normaliser of the profile that the endpoint is named after."""
    build = dispatcher.build_manifest

    def pinning(*args: object, provider: str, **kwargs: object) -> DispatchManifest:
        draft = build(*args, provider=provider, **kwargs)
        draft = draft.model_copy(update={"normaliser": f"{provider}@1", "profile": provider})
        return draft.model_copy(update={"manifest_digest": manifest_digest(draft)})

    patch = pytest.MonkeyPatch()
    patch.setattr(dispatcher, "build_manifest", pinning)
    yield
    patch.undo()


async def test_whatever_happens_to_the_reassemblers(stack, tmp_path: Path) -> None:
    calm = await run(stack, tmp_path / "calm", disturbed=False)
    wild = await run(stack, tmp_path / "wild", disturbed=True)
    print(f"{told()}calm {calm.seconds}, disturbed {wild.seconds} s, {dict(wild.counts)}")
    same_outcomes(calm, wild)
    one_record_per_turn(wild)
    nothing_refuted(audit(wild.found.log(), None, expect_settled=True))
    as_subscribed(wild)
    await stored_bytes_are_published(stack, wild)
    reasons = Counter(
        f"{type(entry.record).__name__} {entry.record.reason}"
        for entry in wild.found.committed
        if isinstance(entry.record, DeadLetter | Quarantined)
    )
    print(f"{told()}{dict(reasons)}")
    assert not [reason for reason in reasons if reason.startswith("DeadLetter")], told()
    # An upgrade is a kill too: right behind a canonical commit.
    assert wild.counts["killed"] + wild.counts["upgraded"] >= SECONDS / 10, told()
    assert wild.counts["stopped"] >= 1, told()
    assert wild.counts["visits"] >= 1, told()


def same_outcomes(calm: Run, wild: Run) -> None:
    expected, got = calm.outcomes(), wild.outcomes()
    wrong = [number for number in range(STREAMS) if expected[number] != got[number]]
    shown = [(number, kind_of(SEED, number), expected[number], got[number]) for number in wrong[:3]]
    assert not wrong, f"{told()}{len(wrong)} differ: {shown}"


def one_record_per_turn(wild: Run) -> None:
    places = Counter((turn.conversation, turn.revision) for turn in wild.turns())
    assert [place for place, count in places.items() if count != 1] == [], told()


def nothing_refuted(report: AuditReport) -> None:
    breaches = [(result.invariant, breach) for result in report.results for breach in result.breaches]
    assert report.refuted == (), f"{told()}{report.refuted}: {breaches[:2]}"


def as_subscribed(wild: Run) -> None:
    """I7 and I8 by the preview rule alone."""
    subscriber = Subscriber({(turn.conversation, turn.revision): turn for turn in wild.turns()})
    for entry in wild.found.uncommitted:
        if entry.topic == "session-events" and isinstance(entry.record, SessionEvent):
            subscriber.read(entry.record)
    subscriber.over()
    assert subscriber.wrong == [], f"{told()}{len(subscriber.wrong)}: {subscriber.wrong[:5]}"
    assert subscriber.compared > STREAMS / 2, told()


async def stored_bytes_are_published(stack, wild: Run) -> None:
    """Whatever build does a commit again, what the first one stored is what is read."""
    published = {turn.operation_id: turn for turn in wild.turns() if turn.kind == "assistant"}
    redis = Redis.from_url(stack.redis_url)
    try:
        for turn in published.values():
            key = conversation_key(turn.tenant, turn.conversation)
            name = bucket_keys(wild.prefix, bucket_of(key))[TURNS]
            stored = await redis.hget(name, f"{key.decode()}|{turn.revision}")
            assert stored == encode(turn), f"{told()}{turn.conversation}"
    finally:
        await redis.aclose()
    first = {line["operation"]: line["build"] for line in wild.builds if line["what"] == "killed"}
    again = [line for line in wild.builds if line["what"] == "stored" and line["operation"] in first]
    crossed = [line["operation"] for line in again if line["build"] != first[line["operation"]]]
    print(f"{told()}{len(first)} killed behind the commit, {len(again)} done again, {len(crossed)} by the other build")
    for operation, build in first.items():
        assert published[operation].receipt.terminal.endswith(f"(build {build})"), f"{told()}{operation}"
    assert crossed, told()
