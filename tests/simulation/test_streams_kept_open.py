"""An open stream is kept through everything that does not end it, also by whoever takes it over (I6, I8)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from turngate.dispatcher.relays import Ended, Relay
from turngate.runtime.outbound import output
from turngate.runtime.redis.scripts import RedisUnavailable, Scripts
from turngate.schemas.codec import decode
from turngate.schemas.envelope import attempt_headers
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EndFrame
from turngate.schemas.turn import Turn
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer, ScriptedRelays, frames

WORDS = ("Mild, ", "a little ", "rain ", "later.")


def answer(relay: Relay) -> Answer:
    def chunk(delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": f"h-{relay.relay}", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        return json.dumps({**body, "choices": [choice]})

    words = tuple(chunk({"content": word}) for word in WORDS)
    return Answer((*words, chunk({}, "stop"), "[DONE]"), frame_events=1)


def end_of(relay: Relay, number: int, cause: str):
    body = EndFrame(
        tenant=relay.tenant, conversation=relay.conversation, operation_id=relay.operation_id,
        generation=relay.generation, relay=number, cause=cause,
    )  # fmt: skip
    return output(
        "stream-events", body, tenant=relay.tenant, conversation=relay.conversation, role="dispatcher",
        event_id=f"end-{number}-{cause}", headers=attempt_headers(relay.operation_id, relay.generation, number),
    )  # fmt: skip


def between(monkeypatch, wanted: int, number: int, cause: str) -> None:
    """In the middle of the frames of relay `wanted` lies an `end` of relay `number`."""

    def start(relays: ScriptedRelays, started: Sequence[Relay]) -> None:
        for relay in started:
            relays.sent.append(relay)
            for place, frame in enumerate(frames(relay, relays.answer(relay))):
                if place == 3 and relay.relay == wanted:
                    relays.log.append(end_of(relay, number, cause))
                relays.log.append(frame)

    monkeypatch.setattr(ScriptedRelays, "start", start)


def taken_over_each_time(seat, records):
    return "after" if seat.role.name == "reassembler" and len(records) < 4 else None


def check(world) -> None:
    turns = [decode(Turn, record.value) for record in world.log.all("turns")]
    assert [turn.kind for turn in turns] == ["input", "assistant"]
    text = ""
    for record in world.log.all("session-events"):
        event = decode(SessionEvent, record.value)
        if event.type == "preview_retracted":
            text = ""
        elif event.type == "partial_text" and event.step == "delta":
            text += event.text or ""
    assert text == turns[1].blocks[0].content.text == "".join(WORDS)
    report = audit_memory(world.log)
    assert report.refuted == (), [breach for result in report.results for breach in result.breaches]


@pytest.mark.parametrize("fault", [None, taken_over_each_time])
@pytest.mark.parametrize("seed", range(4))
async def test_a_lower_relay_ends_while_the_higher_one_speaks(make_world, monkeypatch, seed: int, fault) -> None:
    between(monkeypatch, 2, 1, "eof")
    world = make_world(cut_first, seed=seed, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run()
    (command,) = [decode(SequenceCommand, record.value) for record in world.log.all("sequences")]
    again = command.model_copy(update={"mode": "replay", "expected_generation": 1})
    world.log.append(output("sequences", again, tenant="acme", conversation="c0", event_id="replay", role="recovery"))
    await world.fleet.run(fault=fault)
    check(world)


def cut_first(relay: Relay) -> Answer:
    whole = answer(relay)
    return whole if relay.relay > 1 else Answer(whole.events[:2], Ended("reset"), frame_events=1)


@pytest.mark.parametrize("fault", [None, taken_over_each_time])
@pytest.mark.parametrize("seed", range(4))
async def test_an_owner_is_called_gone_and_has_renewed_its_lease(make_world, monkeypatch, seed: int, fault) -> None:
    between(monkeypatch, 1, 1, "ownerGone")
    world = make_world(answer, seed=seed, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run(fault=fault)
    check(world)


async def test_redis_is_away_at_the_bind(make_world, monkeypatch) -> None:
    """The frame that brought the handle also brought the first words."""
    run, failed = Scripts.run, []

    async def failing(self: Scripts, script: str, bucket: int, term: int, *args: str | bytes | int):
        if script == "reassembler/bind_v1" and len(failed) < 2:
            failed.append(script)
            raise RedisUnavailable("away")
        return await run(self, script, bucket, term, *args)

    monkeypatch.setattr(Scripts, "run", failing)
    world = make_world(answer, closes=False)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.run()
    assert failed
    check(world)
