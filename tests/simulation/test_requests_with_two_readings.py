"""A request that can be read in two ways, or whose id was used for another, is put aside where everybody sees it."""

from __future__ import annotations

import pytest

from turngate.runtime.outbound import output
from turngate.runtime.records import Output
from turngate.runtime.redis.keys import TIMERS, bucket_keys
from turngate.schemas.codec import decode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.requests import TurnRequest
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest
from turngate.schemas.turn import Turn
from turngate.schemas.verdict import Verdict
from turngate.testing.memory_log import MemoryLog
from turngate.testing.scripted import Answer
from turngate.topology.keys import bucket_of


def reasons(world) -> list[str]:
    return [letter.reason for letter in world.fleet.dead_letters]


def verdicts(world) -> list[tuple[str, str]]:
    found = [decode(Verdict, record.value) for record in world.log.all("verdicts")]
    return [(verdict.request_id, verdict.verdict) for verdict in found]


async def due(world, conversation: str) -> None:
    """As if the wait for the next look were over."""
    key = conversation_key("acme", conversation)
    timers = bucket_keys(world.prefix, bucket_of(key))[TIMERS]
    assert await world.redis.zadd(timers, {f"wake|{key.decode()}": 0}, xx=True, ch=True) == 1


def toolset(name: str) -> Toolset:
    tools = (ToolDeclaration(name=name, input_schema='{"type":"object"}', side_effects="read"),)
    return Toolset(tenant="acme", tools=tools, toolset_digest=toolset_digest("acme", tools))


async def run(world) -> None:
    for _ in range(3):
        await world.fleet.idle("recovery")
        await world.fleet.run()
        world.clock.advance(5_000)


def written_again(log: MemoryLog, more: bytes = b"") -> None:
    """The first request once more, as a record of its own."""
    first = log.all("turn-requests")[0]
    assert first.value is not None
    log.append(Output("turn-requests", first.key, first.value[:-1] + more + b"}", first.headers, first.partition))


@pytest.mark.parametrize("text", ["And Rome?", None])
async def test_other_content_under_a_used_id_is_dead_lettered_and_a_redelivery_is_not(make_world, text) -> None:
    world = make_world(lambda relay: Answer(()))
    world.ask("c1", "r1", "How warm is Oslo?")
    await run(world)
    assert verdicts(world) == [("r1", "READY")]
    written_again(world.log)
    await run(world)
    assert verdicts(world) == [("r1", "READY")] * 2, "the same request again is answered again"
    assert reasons(world) == []
    world.ask("c1", "r1", text)
    await run(world)
    assert reasons(world) == ["request_id_reused"]
    assert verdicts(world) == [("r1", "READY")] * 2
    kinds = [decode(Turn, record.value).kind for record in world.log.all("turns")]
    assert kinds == ["input"], "nothing was committed twice"


async def test_a_held_request_comes_back_under_its_id_and_another_does_not(make_world) -> None:
    world = make_world(lambda relay: Answer(()))
    world.ask("c1", "r1", "How warm is Oslo?", endpoint="nowhere")
    await run(world)
    for _ in range(4):
        await due(world, "c1")
        await run(world)
    asked = [decode(TurnRequest, record.value) for record in world.log.all("turn-requests")]
    assert [request.cause_id for request in asked] == [None] + ["r1/0"] * 4
    assert verdicts(world) == [("r1", "PAUSED")] * 2, "once for each cause"
    assert reasons(world) == []
    world.ask("c1", "r1", "How warm is Rome?", endpoint="openai")
    await run(world)
    assert reasons(world) == ["request_id_reused"]
    assert world.log.all("turns") == []


async def test_a_toolset_that_arrives_late_ends_the_wait_whenever_it_comes(make_world) -> None:
    world = make_world(lambda relay: Answer(()))
    late = toolset("late")
    world.ask("c1", "r1", "How warm is Oslo?", toolset_digest=late.toolset_digest)
    for _ in range(3):
        await run(world)
        await due(world, "c1")
    assert {verdict for verdict in verdicts(world)} == {("r1", "WAITING")}
    world.log.append(
        output("toolsets", late, tenant="acme", conversation="t", event_id="late", role="test", partition=0)
    )
    await run(world)
    await due(world, "c1")
    await run(world)
    assert verdicts(world)[-1] == ("r1", "READY")


async def test_a_request_that_names_a_key_twice_is_dead_lettered(make_world) -> None:
    world = make_world(lambda relay: Answer(()))
    world.ask("c1", "r1", "How warm is Oslo?", endpoint="nowhere")
    written_again(world.log, b',"requestId":"r2"')
    await run(world)
    assert reasons(world) == ["duplicate_key"]
    assert {ident for ident, _ in verdicts(world)} == {"r1"}
