"""Every role is killed with SIGKILL at random during 200 conversations and restarted: all settle, nothing breaks."""

from __future__ import annotations

import asyncio
import os
import signal
from random import Random
from typing import Any

import pytest

from turngate.devstack.crowd import Crowd, script
from turngate.devstack.fleet import ALL_ROLES, EndpointPlan
from turngate.domain.audit.report import Status

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CONVERSATIONS = 200 if os.environ.get("TURNGATE_KAFKA") else 60
"""On the real broker as many as the promise says; on the embedded one enough to be killed in."""
SETTLE_SECONDS = 180.0
KILLS_MAX = 6
FIRST_KILL_MAX = CONVERSATIONS // 4
"""Conversations settled, at most, when the role is killed for the first time."""
PAUSE_SECONDS = (0.2, 1.2)
ENDPOINTS = (
    EndpointPlan("openai", "openai-chat", close_ends_generation=True, profile="openai"),
    EndpointPlan("anthropic", "anthropic", close_ends_generation=True, profile="anthropic"),
)
"""Both declare what makes an attempt's end evidence: nobody is there to resolve by hand."""


@pytest.fixture(scope="module")
def fleet_changes() -> dict[str, Any]:
    return {"endpoints": ENDPOINTS, "script": script(CONVERSATIONS)}


@pytest.mark.parametrize("role", ALL_ROLES)
async def test_a_killed_role_loses_and_doubles_nothing(fleet, role: str) -> None:
    if role not in fleet.plan.roles:
        pytest.skip(f"{role} is not in the development fleet")
    random = Random(role)
    names = tuple(endpoint.name for endpoint in ENDPOINTS)
    async with Crowd(fleet.fleet, f"killed-{role}", conversations=CONVERSATIONS, endpoints=names) as crowd:
        running = asyncio.create_task(crowd.run(SETTLE_SECONDS))
        # The first kill waits for work under way, not for a time: a fast machine settles the crowd in a second.
        first = random.randint(1, FIRST_KILL_MAX)
        await crowd.watch.until(f"{first} settled", lambda: crowd.settled() >= first or running.done())
        for _ in range(KILLS_MAX):
            assert not running.done(), "the crowd had settled before the kill"
            await fleet.supervisor.kill(role, signal.SIGKILL)
            await fleet.supervisor.restart(role)
            await fleet.supervisor.wait_ready(role)
            await asyncio.wait([running], timeout=random.uniform(*PAUSE_SECONDS))
            if running.done():
                break
        await running
    report = await fleet.audit()
    assert report.refuted == (), [breach.why for result in report.results for breach in result.breaches]
    assert report.of("I3").status is Status.PROVED
    assert report.of("I4").status is Status.PROVED
