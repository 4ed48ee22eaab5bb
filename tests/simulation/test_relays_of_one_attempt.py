"""Several relays of one attempt: the higher one wins and starts from nothing, whatever was shown before (I7, I8)."""

from __future__ import annotations

import json

import pytest

from turngate.dispatcher.relays import Ended, Relay
from turngate.runtime.outbound import output
from turngate.schemas.codec import decode
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer

TENANT = "acme"
FIRST = ("Cold ", "and ", "windy ")
SECOND = ("Mild, ", "a little ", "rain ", "later.")
CLOSINGS = ("request_begin", "preview_retracted", "request_end")


def chunk(delta: dict[str, object], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "h", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]})


def another_sample(relay: Relay) -> Answer:
    """The first relay is cut and nothing says that its generation is over; its replay says something else."""
    if relay.relay == 1:
        return Answer(tuple(chunk({"content": word}) for word in FIRST), Ended("reset"), frame_events=1)
    words = tuple(chunk({"content": word}) for word in SECOND)
    return Answer((*words, chunk({}, "stop"), "[DONE]"), frame_events=1)


def replay(world) -> None:
    """As whoever replays under the same idempotency key would command it."""
    (command,) = [decode(SequenceCommand, record.value) for record in world.log.all("sequences")]
    again = command.model_copy(update={"mode": "replay", "expected_generation": 1})
    world.log.append(output("sequences", again, tenant=TENANT, conversation="c0", event_id="replay", role="recovery"))


def shown(world) -> list[SessionEvent]:
    """Everything of the attempt as a reader of uncommitted records is given it."""
    return [decode(SessionEvent, record.value) for record in world.log.all("session-events", committed=False)]


def check(world) -> None:
    (turn,) = [turn for record in world.log.all("turns") if (turn := decode(Turn, record.value)).kind == "assistant"]
    assert turn.blocks[0].content.text == "".join(SECOND)
    assert turn.receipt.relay == 2
    text = ""
    for event in shown(world):
        if event.type == "preview_retracted":
            assert event.relay == 1
            text = ""
        elif event.type == "partial_text" and event.step == "delta" and event.text_offset <= len(text):
            text += event.text[len(text) - event.text_offset :]
    assert text == "".join(SECOND), "what a reader has at the commit"
    committed = [decode(SessionEvent, record.value).type for record in world.log.all("session-events")]
    assert committed.count("request_begin") == 1
    report = audit_memory(world.log)
    assert report.refuted == (), [breach for result in report.results for breach in result.breaches]
    assert world.fleet.dead_letters == []


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("fault", [None, "before", "lost", "abort", "after"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_replay_that_samples_differently(make_world, seed: int, fault: str | None, at_the_end: bool) -> None:
    world = make_world(another_sample, seed=seed, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run()
    replay(world)
    died = []

    def dies(seat, records):
        wanted = not at_the_end or any(b"StreamEnd" in record.value for record in records)
        if seat.role.name == "reassembler" and len(died) < 3 and fault is not None and wanted:
            died.append(fault)
            return fault
        return None

    await world.fleet.run(fault=dies)
    check(world)


@pytest.mark.parametrize("seed", range(4))
async def test_a_replay_begins_before_the_transaction_that_made_its_attempt_unknown_is_done_again(
    make_world, seed: int
) -> None:
    world = make_world(another_sample, seed=seed, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")

    def loses_the_end(seat, records):
        if seat.role.name != "reassembler":
            return None
        if any(b"StreamEnd" in record.value for record in records) and not lost:
            lost.append(seat)
            replay(world)
            return "lost"
        # Until the replay has been accepted nobody takes the partition over.
        accepted = any(b'"relay":2' in record.value for record in world.log.all("stream-events"))
        return None if not lost or accepted else "before"

    lost: list[object] = []
    await world.fleet.run(fault=loses_the_end)
    assert lost
    check(world)


async def test_a_replay_after_redis_was_lost(make_world) -> None:
    world = make_world(another_sample, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run()
    keys = [key async for key in world.redis.scan_iter(match=f"{world.prefix}:*", count=1000)]
    await world.redis.delete(*keys)
    for role in ("recovery", "validator", "dispatcher", "reassembler", "ledger"):
        await world.fleet.crash(role)
    await world.fleet.idle("recovery")
    replay(world)
    await world.fleet.run()
    check(world)


def cut_again(relay: Relay) -> Answer:
    """Of the replay it is known that nothing more comes: its generation is over, and the next one answers."""
    if relay.generation == 2:
        return Answer((chunk({"content": "Fog."}), chunk({}, "stop"), "[DONE]"))
    words = tuple(chunk({"content": word}) for word in (FIRST if relay.relay == 1 else SECOND))
    return Answer(words, Ended("reset"), None if relay.relay == 1 else "connectionClosed", frame_events=4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", [None, "lost", "abort"])
async def test_a_replay_that_fails_too(make_world, seed: int, fault: str | None) -> None:
    world = make_world(cut_again, seed=seed, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run()
    replay(world)
    died = []

    def dies(seat, records):
        if seat.role.name == "reassembler" and not died and any(b"StreamEnd" in record.value for record in records):
            died.append(fault)
            return fault
        return None

    await world.fleet.run(fault=dies)
    for _ in range(20):
        await world.fleet.idle("recovery")
        await world.fleet.run()
        world.clock.advance(4000)
    events = [decode(SessionEvent, record.value) for record in world.log.all("session-events")]
    steps = [(event.type, event.generation, event.relay) for event in events if event.type in CLOSINGS]
    assert steps == [
        ("request_begin", 1, None), ("preview_retracted", 1, 1), ("preview_retracted", 1, None),
        ("request_end", 1, None), ("request_begin", 2, None), ("request_end", 2, None),
    ]  # fmt: skip
    assert audit_memory(world.log).refuted == ()
