"""A provider's stream that goes on and on is ended at its time limit; with evidence the next attempt has its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turngate.devstack.provider_sim.script import Match, Plan, Rule, Script

if TYPE_CHECKING:
    from conftest import FleetUnderTest

pytestmark = [pytest.mark.kafka, pytest.mark.asyncio(loop_scope="module")]

OPEN_SECONDS = 2
TOLD = ("request_begin", "preview_retracted", "request_end")
ENDLESS = Plan(text=("word ",) * 600, delay_ms=100)
SCRIPT = Script(
    rules=(
        Rule(match=Match(contains="slowly", request=1), plan=ENDLESS),
        Rule(match=Match(contains="slowly", request=2), plan=Plan(text=("Done.",))),
    )
)


@pytest.fixture(scope="module")
def fleet_changes() -> dict[str, Any]:
    quick = {"TURNGATE_LEASE_MS": "3000", "TURNGATE_RENEW_MS": "500", "TURNGATE_RETRY_BASE_MS": "300"}
    return {"script": SCRIPT, "env": quick | {"TURNGATE_STREAM_OPEN_SECONDS": str(OPEN_SECONDS)}}


async def test_a_stream_without_end_is_ended_and_its_turn_comes_by_the_next_attempt(fleet: FleetUnderTest) -> None:
    await fleet.ask("endless", "tell me slowly")
    turn = await fleet.answered("endless", 2)
    assert [block.content.text for block in turn.blocks if block.content is not None] == ["Done."]
    assert turn.receipt is not None
    assert [(note.generation, note.status) for note in turn.receipt.generations] == [(1, "timeout"), (2, "completed")]
    # The turn and the stream's events are topics of their own: neither is read before the other by right.
    await fleet.watch.until("both attempts' ends", lambda: len(fleet.watch.events("endless", "request_end")) > 1)
    told = [event.type for event in fleet.watch.events("endless", *TOLD)]
    assert told == ["request_begin", "preview_retracted", "request_end", "request_begin", "request_end"]
    report = await fleet.audit()
    assert report.refuted == (), [breach.why for result in report.results for breach in result.breaches]
