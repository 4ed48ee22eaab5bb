"""Frames that name an operation without belonging to it change nothing but the quarantine (I10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from turngate.dispatcher.relays import Relay
from turngate.runtime.records import Output
from turngate.schemas.codec import decode
from turngate.schemas.envelope import attempt_headers, conversation_key
from turngate.schemas.quarantine import Quarantined
from turngate.schemas.turn import Turn
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer, ScriptedRelays, frames

ASKED, OTHER = "c0", "c1"
TENANT = "acme"
WORDS = ("one ", "two ", "three ")


def answer(relay: Relay) -> Answer:
    def chunk(delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": f"h-{relay.operation_id}", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        return json.dumps({**body, "choices": [choice]})

    return Answer((*(chunk({"content": word}) for word in WORDS), chunk({}, "stop"), "[DONE]"), frame_events=1)


def of_another_conversation(relay: Relay, frame: Output) -> Output:
    """The same operation under the name and key of another conversation, on the same partition."""
    body = json.loads(frame.value) | {"conversation": OTHER}
    if "events" in body:
        body["events"] = ["{}"]
    return replace(frame, key=conversation_key(TENANT, OTHER), value=json.dumps(body).encode())


def of_another_attempt(relay: Relay, frame: Output) -> Output:
    """The attempt's headers over the body of another one."""
    return replace(frame, value=json.dumps(json.loads(frame.value) | {"operationId": "op-other"}).encode())


def of_a_header_alone(relay: Relay, frame: Output) -> Output:
    """The body of the attempt's frame cut in half, under another relay's number."""
    headers = attempt_headers(relay.operation_id, relay.generation, relay.relay + 1)
    return replace(frame, value=frame.value[: len(frame.value) // 2], headers=headers)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("foreign", "reasons"),
    [
        (of_another_conversation, {"other_conversation", "unknown_operation"}),
        (of_another_attempt, {"attempt_mismatch", "late"}),
        (of_a_header_alone, {"unknown_relay", "late", "no_begin"}),
    ],
)
async def test_foreign_frames_between_those_of_an_attempt(
    make_world, monkeypatch, seed: int, foreign: Callable[[Relay, Output], Output], reasons: set[str]
) -> None:
    def start(relays: ScriptedRelays, started: Sequence[Relay]) -> None:
        for relay in started:
            relays.sent.append(relay)
            for frame in frames(relay, relays.answer(relay)):
                relays.log.append(foreign(relay, frame))
                relays.log.append(frame)
                relays.log.append(foreign(relay, frame))

    monkeypatch.setattr(ScriptedRelays, "start", start)
    world = make_world(answer, seed=seed)
    await world.fleet.idle("recovery")
    world.ask(ASKED, "r0", "Count.")
    await world.fleet.run()
    turns = [decode(Turn, record.value) for record in world.log.all("turns")]
    assert [(turn.conversation, turn.kind) for turn in turns] == [(ASKED, "input"), (ASKED, "assistant")]
    assert turns[1].blocks[0].content.text == "".join(WORDS)
    kept = [decode(Quarantined, record.value) for record in world.log.all("quarantine")]
    dead = world.fleet.dead_letters
    assert len(kept) + len(dead) == 2 * len(frames(world.relays.sent[0], answer(world.relays.sent[0])))
    assert {record.reason for record in kept} <= reasons
    assert {letter.reason for letter in dead} <= {"malformed_json"}
    assert audit_memory(world.log).refuted == ()


@pytest.mark.parametrize("seed", range(6))
async def test_a_relay_written_again_behind_its_end(make_world, monkeypatch, seed: int) -> None:
    """Also where one batch holds both: what was looked up for it before the outcome says nothing about what follows."""

    def start(relays: ScriptedRelays, started: Sequence[Relay]) -> None:
        for relay in started:
            relays.sent.append(relay)
            for frame in frames(relay, replace(relays.answer(relay), frame_events=9)) * 2:
                relays.log.append(frame)

    monkeypatch.setattr(ScriptedRelays, "start", start)
    world = make_world(answer, seed=seed)
    await world.fleet.idle("recovery")
    world.ask(ASKED, "r0", "Count.")
    await world.fleet.run()
    kept = [decode(Quarantined, record.value) for record in world.log.all("quarantine")]
    assert [record.reason for record in kept] == ["late"] * 3
    assert audit_memory(world.log).refuted == ()
