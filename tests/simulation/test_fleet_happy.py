"""The whole line, stepped by hand: a question, two parallel tool calls, results, a final answer."""

from __future__ import annotations

import json

from turngate.dispatcher.relays import Relay
from turngate.schemas.codec import decode
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn
from turngate.testing.scripted import Answer, orders, result_of


def chunk(delta: dict[str, object], finish: str | None = None) -> str:
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
    )


def call(index: int, ident: str, name: str, arguments: str) -> str:
    return chunk(
        {"tool_calls": [{"index": index, "id": ident, "type": "function",
                         "function": {"name": name, "arguments": arguments}}]}
    )  # fmt: skip


TOOLS = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me "}),
    chunk({"content": "look."}),
    call(0, "call_a", "weather", '{"city":"Oslo"}'),
    call(1, "call_b", "weather", '{"city":"Rome"}'),
    chunk({}, "tool_calls"),
    "[DONE]",
)
FINAL = (chunk({"role": "assistant", "content": "Cold and "}), chunk({"content": "warm."}), chunk({}, "stop"), "[DONE]")


def answer(relay: Relay) -> Answer:
    return Answer(FINAL if b'"role":"tool"' in relay.body else TOOLS)


async def settle(world, rounds: int = 20) -> None:
    """Runs the fleet and answers orders, last first, until nothing more happens."""
    answered: set[str] = set()
    for _ in range(rounds):
        await world.fleet.idle("recovery")
        steps = await world.fleet.run()
        fresh = [o for o in orders(world.log.all("tool-calls")) if o.call_key not in answered]
        for order in reversed(fresh):
            answered.add(order.call_key)
            world.log.append(result_of(order, f"result of {order.call_id}"))
        world.clock.advance(600)
        if not steps and not fresh:
            return


async def test_a_turn_with_two_calls_ends_in_a_final_answer(make_world) -> None:
    world = make_world(answer)
    world.ask("c1", "r1", "How is the weather?")
    await settle(world)
    assert world.fleet.dead_letters == []
    turns = [decode(Turn, record.value) for record in world.log.all("turns")]
    assert [(turn.revision, turn.kind) for turn in turns] == [
        (1, "input"),
        (2, "assistant"),
        (3, "tool"),
        (4, "assistant"),
    ]
    assert [block.call_id for block in turns[2].blocks] == ["call_a", "call_b"]
    assert turns[3].blocks[0].content.text == "Cold and warm."
    events = [decode(SessionEvent, record.value) for record in world.log.all("session-events")]
    names = [event.type for event in events]
    assert names.count("turn_committed") == 3
    assert len(world.relays.sent) == 2
    traced = [decode(SessionEvent, record.value).type for record in world.log.all("trace")]
    assert traced == [name for name in names if not name.startswith("partial_")]
