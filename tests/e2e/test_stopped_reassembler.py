"""A reassembler is stopped with SIGSTOP past its take-over and goes on later: nothing of what it had in hand lands."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from aiokafka import TopicPartition

from turngate.devstack.crowd import Crowd, script
from turngate.devstack.fleet import EndpointPlan
from turngate.devstack.ports import free_ports
from turngate.devstack.supervisor import ProcessSpec, role_argv
from turngate.domain.audit.report import Status
from turngate.topology.groups import ROLES
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.real, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CONVERSATIONS = 120
SETTLE_SECONDS = 150.0
METADATA_MAX = 1024
ENDPOINTS = (
    EndpointPlan("openai", "openai-chat", close_ends_generation=True, profile="openai"),
    EndpointPlan("anthropic", "anthropic", close_ends_generation=True, profile="anthropic"),
)


@pytest.fixture(scope="module")
def fleet_changes() -> dict[str, Any]:
    return {"endpoints": ENDPOINTS, "script": script(CONVERSATIONS)}


def successor(fleet: Any) -> ProcessSpec:
    """A second reassembler, under an instance id of its own."""
    (port,) = free_ports(1)
    env = fleet.fleet.environment("reassembler-1") | {"TURNGATE_HTTP_PORT": str(port)}
    log = fleet.plan.folder / "reassembler-1.log"
    url = f"http://127.0.0.1:{port}/readyz"
    return ProcessSpec("reassembler-1", role_argv("reassembler"), log, env, ready_url=url)


async def test_a_zombie_changes_nothing(fleet) -> None:
    names = tuple(endpoint.name for endpoint in ENDPOINTS)
    async with Crowd(fleet.fleet, "stopped", conversations=CONVERSATIONS, endpoints=names) as crowd:
        running = asyncio.create_task(crowd.run(SETTLE_SECONDS))
        await crowd.watch.until("some turns", lambda: len(crowd.watch.records) > 300)
        fleet.supervisor.send("reassembler", signal.SIGSTOP)
        fleet.supervisor.start(successor(fleet))
        # Its members' session has run out once the successor has all partitions, which it then is ready with.
        await fleet.supervisor.wait_ready("reassembler-1", timeout_seconds=60)
        fleet.supervisor.send("reassembler", signal.SIGCONT)
        await running
    report = await fleet.audit()
    assert report.refuted == (), [breach.why for result in report.results for breach in result.breaches]
    assert report.of("I3").status is Status.PROVED
    await metadata_is_a_number(fleet)


async def metadata_is_a_number(fleet: Any) -> None:
    """What the reassembler commits beside its offsets stays short, however many streams were open."""
    role, prefix = ROLES["reassembler"], fleet.plan.prefix
    places = [
        TopicPartition(TOPICS["stream-events"].full_name(prefix), number) for number in range(fleet.plan.partitions)
    ]
    found = await fleet.admin.list_consumer_group_offsets(role.group(prefix), partitions=places)
    assert len(found) == fleet.plan.partitions
    for at in found.values():
        assert len(at.metadata) <= METADATA_MAX
        assert at.metadata == "" or at.metadata.isdigit()
