"""What a stream shows is written again where the transaction of its outcome was lost (I7, I8)."""

from __future__ import annotations

import json

import pytest

from turngate.dispatcher.relays import Relay
from turngate.schemas.codec import decode
from turngate.schemas.session import SessionEvent
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer

WORDS = tuple(f"word{number} " for number in range(12))


def slow_text(relay: Relay) -> Answer:
    """One word a frame."""

    def chunk(delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": f"h-{relay.operation_id}", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        return json.dumps({**body, "choices": [choice]})

    return Answer((*(chunk({"content": word}) for word in WORDS), chunk({}, "stop"), "[DONE]"), frame_events=1)


@pytest.mark.parametrize("kind", ["lost", "abort"])
@pytest.mark.parametrize("seed", range(6))
async def test_the_last_words_before_a_lost_outcome(make_world, seed: int, kind: str) -> None:
    world = make_world(slow_text, seed=seed)
    died = []

    def at_the_end(seat, records):
        if seat.role.name == "reassembler" and not died and any(b"StreamEnd" in record.value for record in records):
            died.append(len(records))
            return kind
        return None

    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "Speak slowly.")
    await world.fleet.run(fault=at_the_end)
    assert died
    deltas = [
        event
        for record in world.log.all("session-events")
        if (event := decode(SessionEvent, record.value)).type == "partial_text" and event.step == "delta"
    ]
    assert "".join(event.text or "" for event in deltas) == "".join(WORDS)
    assert audit_memory(world.log).refuted == ()
