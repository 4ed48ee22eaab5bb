"""A reassembler of an older build reads a stream whose manifest pins a normaliser it does not have: nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from turngate.dispatcher import service as dispatcher
from turngate.dispatcher.relays import Relay
from turngate.domain.adapters import normalisers
from turngate.schemas.codec import decode
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.turn import Turn
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer

NEWER = 2


def answer(relay: Relay) -> Answer:
    def chunk(delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": "h", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}
        return json.dumps(body)

    return Answer((chunk({"content": "Cold and "}), chunk({"content": "warm."}), chunk({}, "stop"), "[DONE]"))


@pytest.fixture
def pinned_newer(monkeypatch) -> None:
    """The dispatcher is of a build that pins the newer normaliser."""
    build = dispatcher.build_manifest

    def pinning(*args: object, **kwargs: object) -> DispatchManifest:
        draft = build(*args, **kwargs).model_copy(update={"normaliser": f"openai@{NEWER}"})
        return draft.model_copy(update={"manifest_digest": manifest_digest(draft)})

    monkeypatch.setattr(dispatcher, "build_manifest", pinning)


def upgrade(monkeypatch) -> None:
    """From here on this process is of a build that has it beside the older one."""
    known = normalisers.all_normalisers()
    newer = replace(known["openai", 1], version=NEWER)
    found = MappingProxyType({**known, ("openai", NEWER): newer})
    monkeypatch.setattr(normalisers, "all_normalisers", lambda: found)


async def test_an_older_build_waits_for_the_roll_out(make_world, monkeypatch, pinned_newer) -> None:
    world = make_world(answer)
    await world.fleet.idle("recovery")
    world.ask("c0", "r0", "How is the weather?")
    with pytest.raises(AssertionError, match="did not come to rest"):
        await world.fleet.run(rounds=20)
    assert world.fleet.dead_letters == []
    assert world.log.all("quarantine") == []

    await world.fleet.crash("reassembler")
    upgrade(monkeypatch)
    await world.fleet.run()
    turns = [decode(Turn, record.value) for record in world.log.all("turns")]
    assert [turn.kind for turn in turns] == ["input", "assistant"]
    assert turns[1].receipt.normaliser == f"openai@{NEWER}"
    assert audit_memory(world.log).refuted == ()
