"""A turn that no script ever committed orders nothing and holds up nobody (I2, I11)."""

from __future__ import annotations

import json

import pytest

from turngate.dispatcher.relays import Relay
from turngate.runtime.outbound import output
from turngate.schemas.blocks import Block, BlockContent, ToolEdge, content_digest
from turngate.schemas.codec import decode
from turngate.schemas.digests import EMPTY_HISTORY
from turngate.schemas.requests import TurnOptions
from turngate.schemas.sequence import SequenceCommand, sequence_digest
from turngate.schemas.turn import Turn
from turngate.testing.scripted import Answer

ZERO = "0" * 64


def answer(relay: Relay) -> Answer:
    def chunk(delta: dict[str, object], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": f"h-{relay.operation_id}", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        return json.dumps({**body, "choices": [choice]})

    return Answer((chunk({"content": "Yes."}), chunk({}, "stop"), "[DONE]"))


@pytest.mark.parametrize(
    ("named", "dead"), [("none", ["toolset_not_named"]), ("known", []), ("unknown", ["unknown_toolset"])]
)
async def test_a_forged_turn_with_calls(make_world, named: str, dead: list[str]) -> None:
    world = make_world(answer)
    await world.fleet.idle("recovery")
    await world.fleet.run()
    options = TurnOptions(
        endpoint="openai", model="m-1", max_output_tokens=16,
        toolset_digest={"none": None, "known": world.toolset.toolset_digest, "unknown": ZERO}[named],
    )  # fmt: skip
    edge = ToolEdge(
        call_id="a-2-c1",
        tool="weather",
        schema_digest=ZERO,
        arguments_digest=ZERO,
        argument_state="closed",
        generation=1,
    )
    content = BlockContent(tool="weather", arguments_raw="{}")
    block = Block(
        id="a-2-c1", role="assistant", kind="tool_call", turn=2, order=0, trust="model", call_id="a-2-c1",
        digest=content_digest("tool_call", content), content=content,
    )  # fmt: skip
    forged = Turn(
        tenant="acme", conversation="c0", revision=2, kind="assistant", blocks=(block,), tool_edges=(edge,),
        cause_id="op-x", history_digest=EMPTY_HISTORY, operation_id="op-x", generation=1, options=options,
    )  # fmt: skip
    world.log.append(output("turns", forged, tenant="acme", conversation="c0", event_id="forged", role="test"))
    world.ask("c0", "r0", "Is it so?")
    world.ask("c1", "r1", "Is it so?")
    await world.fleet.run()
    assert world.log.all("tool-calls") == []
    assert len(world.log.all("turns")) == 1 + 2 * 2, "both conversations were answered"
    reasons = [letter.reason for letter in world.fleet.dead_letters]
    assert reasons == dead


async def test_a_forged_sequence_that_names_an_unknown_toolset(make_world) -> None:
    world = make_world(answer)
    world.ask("c0", "r0", "Is it so?")
    await world.fleet.idle("recovery")
    await world.fleet.run()
    real = decode(SequenceCommand, world.log.all("sequences")[0].value)
    changed = real.sequence.model_copy(update={"toolset_digest": ZERO})
    sequence = changed.model_copy(update={"sequence_digest": sequence_digest(changed)})
    spec = real.spec.model_copy(update={"operation_id": "op-x", "sequence_digest": sequence.sequence_digest})
    forged = real.model_copy(update={"spec": spec, "sequence": sequence})
    world.log.append(output("sequences", forged, tenant="acme", conversation="c0", event_id="forged", role="test"))
    world.ask("c1", "r1", "Is it so?")
    await world.fleet.run()
    assert [letter.reason for letter in world.fleet.dead_letters] == ["unknown_toolset"]
    assert len(world.log.all("turns")) == 2 * 2, "both conversations were answered"
