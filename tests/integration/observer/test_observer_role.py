"""`turngate run observer` as a process: committed turns are counted once, also when it is killed."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from turngate.cli.audit_input import read_cluster
from turngate.devstack.base import Stack
from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.schemas.codec import encode
from turngate.schemas.turn import Turn
from turngate.topology.groups import ROLES
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
PARTITIONS = 2
WAIT_SECONDS = 60


@dataclass
class Observer:
    """The running role, and a transactional writer of its input."""

    fleet: DevFleet
    http: httpx2.AsyncClient
    numbers: Any = field(default_factory=itertools.count)

    def turn(self, tenant: str, conversation: str) -> tuple[bytes, bytes]:
        """Key and value of one more turn."""
        number = next(self.numbers)
        turn = Turn(
            tenant=tenant, conversation=conversation, revision=number + 1, kind="input", blocks=(),
            cause_id=f"r{number}", history_digest="0" * 64,
        )  # fmt: skip
        return f"{tenant}/{conversation}".encode(), encode(turn)

    async def produce(self, records: Sequence[tuple[bytes, bytes]], *, abort: bool = False) -> None:
        """The records in one transaction, which is committed or aborted."""
        prefix = self.fleet.plan.prefix
        async with AIOKafkaProducer(
            bootstrap_servers=self.fleet.stack.kafka_bootstrap, transactional_id=f"{prefix}{next(self.numbers)}"
        ) as producer:
            await producer.begin_transaction()
            for key, value in records:
                name = TOPICS["turns"].full_name(prefix)
                await producer.send_and_wait(name, value, key=key, partition=partition_of(key, PARTITIONS))
            await (producer.abort_transaction() if abort else producer.commit_transaction())

    async def windows(self, tenant: str) -> list[dict[str, Any]]:
        answer = await self.http.get(f"{self.fleet.url('observer')}/v1/tenants/{tenant}/turns-per-minute")
        assert answer.status_code == 200, answer.text
        assert (answer.json()["tenant"], answer.json()["complete"]) == (tenant, True)
        windows: list[dict[str, Any]] = answer.json()["windows"]
        return windows

    async def turns(self, tenant: str) -> int:
        return sum(int(window["turns"]) for window in await self.windows(tenant))

    async def metric(self, sample: str) -> float:
        text = (await self.http.get(f"{self.fleet.url('observer')}/metrics")).text
        found = re.search(rf"(?m)^{re.escape(sample)} (\S+)$", text)
        return float(found[1]) if found else 0.0

    async def offsets(self) -> list[int]:
        """What the group has committed on `turns`, by partition."""
        prefix = self.fleet.plan.prefix
        admin = AIOKafkaAdminClient(bootstrap_servers=self.fleet.stack.kafka_bootstrap)
        await admin.start()
        try:
            places = [TopicPartition(TOPICS["turns"].full_name(prefix), number) for number in range(PARTITIONS)]
            found = await admin.list_consumer_group_offsets(ROLES["observer"].group(prefix), partitions=places)
        finally:
            await admin.close()
        return [found[place].offset for place in places]


@pytest.fixture
async def observer(stack: Stack, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Observer]:
    plan = FleetPlan(
        folder=tmp_path, prefix=topic_prefix, partitions=PARTITIONS, tenants="acme,other", roles=("observer",)
    )
    async with DevFleet(stack, plan) as fleet, httpx2.AsyncClient(timeout=10) as http:
        yield Observer(fleet, http)


async def until(found: Callable[[], Any], wanted: object) -> None:
    """Asks again until the answer is the wanted one."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (answer := await found()) != wanted:
        assert time.monotonic() < deadline, f"{answer!r} is not {wanted!r}"
        await asyncio.sleep(0.2)


async def test_committed_turns_are_counted_once_also_when_it_is_killed(observer: Observer) -> None:
    async def both() -> tuple[int, int]:
        return await observer.turns("acme"), await observer.turns("other")

    conversations = ["c1", "c2", "c3", "c4"]
    assert {partition_of(f"acme/{name}".encode(), PARTITIONS) for name in conversations} == {0, 1}
    acme = [observer.turn("acme", name) for name in conversations]
    lost = [observer.turn("acme", name) for name in conversations * 2]
    await observer.produce(acme[:1])
    await observer.produce(lost, abort=True)
    bad = [(b"acme/c1", b"{"), (b"acme/c1", acme[0][1].replace(b"Turn.v1", b"Turn.v9"))]
    await observer.produce([*bad, *acme[1:], observer.turn("other", "c1")])
    await until(both, (4, 1))
    windows = await observer.windows("acme")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z", window["start"]) for window in windows)
    assert [window["start"] for window in windows] == sorted((w["start"] for w in windows), reverse=True)
    assert await observer.metric('turngate_observed_turns_total{kind="input"}') == 5
    for reason in ("malformed_json", "unknown_schema"):
        assert await observer.metric(f'turngate_observer_skipped_total{{reason="{reason}"}}') == 1

    # Killed at any point between counting and committing: what is read again is not counted again.
    supervisor = observer.fleet.supervisor
    for _ in range(2):
        await supervisor.restart("observer", graceful=False)
        await supervisor.wait_ready("observer")
        assert await both() == (4, 1), "the changelog has all of it"
        await observer.produce([observer.turn("other", "c2")], abort=True)
    await observer.produce([observer.turn("acme", name) for name in conversations])
    await until(both, (8, 1))

    async def passed() -> bool:
        # Behind the aborted ones: offsets move on over what is never read.
        return sum(await observer.offsets()) >= 4 + len(lost) + len(bad) + 1 + 4

    await until(passed, True)
    read = await read_cluster(observer.fleet.stack.kafka_bootstrap, observer.fleet.plan.prefix)
    assert sum(entry.record is None for entry in read.committed) == len(bad), "the changelog is not audited"
    unknown = await observer.http.get(f"{observer.fleet.url('observer')}/v1/tenants/nobody/turns-per-minute")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_tenant")
    supervisor.send("observer", signal.SIGTERM)
    assert await supervisor.wait_exit("observer", timeout_seconds=60) == 0
