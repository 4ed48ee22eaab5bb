"""The line under faults: processes die before, in and after their steps, transactions are aborted, Redis is lost."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from random import Random

import pytest
from redis.asyncio import Redis

from turngate.dispatcher.relays import Ended, Relay
from turngate.schemas.codec import decode
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn
from turngate.testing.audited import audit_memory
from turngate.testing.scripted import Answer, orders, result_of

SETTLE_SECONDS = 60


class RedisLost(Exception):
    """Ends a run between two steps."""


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


def call(index: int, ident: str, arguments: str) -> str:
    function = {"name": "weather", "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": ident, "type": "function", "function": function}]})


TOOLS = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me look."}),
    call(0, "call_a", '{"city":"Oslo"}'),
    call(1, "call_b", '{"city":"Rome"}'),
    chunk({}, "tool_calls"),
    "[DONE]",
)
FINAL = (chunk({"role": "assistant", "content": "Cold and "}), chunk({"content": "warm."}), chunk({}, "stop"), "[DONE]")


def named(events: tuple[str, ...], relay: Relay) -> tuple[str, ...]:
    """A provider's response id belongs to one response: one for each relay."""
    return tuple(e.replace("chatcmpl-1", f"chatcmpl-{relay.operation_id}-{relay.generation}") for e in events)


def plain(relay: Relay) -> Answer:
    return Answer(named(FINAL if b'"role":"tool"' in relay.body else TOOLS, relay))


def cut_once(relay: Relay) -> Answer:
    """The first generation of every operation is cut in the middle of the arguments; its connection is known closed."""
    if relay.generation == 1:
        return Answer(named(TOOLS[:4], relay), Ended("reset"), "connectionClosed")
    return plain(relay)


async def settle(world, fault=None) -> None:
    """Runs the fleet and answers orders, last first, until every conversation has its four turns and nothing moves."""
    answered: set[str] = set()
    quiet = 0
    deadline = time.monotonic() + SETTLE_SECONDS
    while quiet < 3 or not all(len(turns) == 4 for turns in committed(world).values()):
        assert time.monotonic() < deadline, {name: len(turns) for name, turns in committed(world).items()}
        await world.fleet.idle("recovery")
        steps = await world.fleet.run(fault=fault)
        fresh = [o for o in orders(world.log.all("tool-calls")) if o.call_key not in answered]
        for order in reversed(fresh):
            answered.add(order.call_key)
            world.log.append(result_of(order, f"result of {order.call_id}"))
        world.clock.advance(4000)
        quiet = 0 if steps or fresh else quiet + 1
        if quiet:
            await asyncio.sleep(0.02)  # leases and due times are on Redis' clock


def committed(world) -> dict[str, list[Turn]]:
    by_conversation: dict[str, list[Turn]] = {}
    for record in world.log.all("turns"):
        turn = decode(Turn, record.value)
        by_conversation.setdefault(turn.conversation, []).append(turn)
    return by_conversation


def check(world, conversations: int) -> None:
    """One record per revision, gapless, whole; every attempt that began ended; every call has one output."""
    assert world.fleet.dead_letters == []
    histories = committed(world)
    assert len(histories) == conversations
    for turns in histories.values():
        assert [(turn.revision, turn.kind) for turn in turns] == [
            (1, "input"), (2, "assistant"), (3, "tool"), (4, "assistant"),
        ]  # fmt: skip
        assert [block.call_id for block in turns[2].blocks] == ["call_a", "call_b"]
        assert turns[3].blocks[0].content.text == "Cold and warm."
    events = [decode(SessionEvent, record.value) for record in world.log.all("session-events")]
    begun = [(e.operation_id, e.generation) for e in events if e.type == "request_begin"]
    ended = [(e.operation_id, e.generation) for e in events if e.type == "request_end"]
    assert sorted(begun) == sorted(set(begun))
    assert sorted(begun) == sorted(ended)
    outputs = [event.call_key for event in events if event.type == "tool_call_output"]
    assert len(outputs) == len(set(outputs)) == 2 * conversations
    report = audit_memory(world.log)
    assert report.refuted == (), [breach for result in report.results for breach in result.breaches]
    keys = [(relay.operation_id, relay.generation) for relay in world.relays.sent]
    assert len(keys) == len(set(keys)), "a generation's bytes went out twice"


async def test_every_generation_is_dispatched_with_its_manifest(make_world) -> None:
    """The transaction that carried the first one may have been lost with its process."""
    world = make_world(cut_once)
    world.ask("c0", "r0", "How is the weather?")
    await settle(world)
    dispatched = [decode(Dispatch, record.value) for record in world.log.all("dispatches")]
    manifests = [decode(DispatchManifest, record.value) for record in world.log.all("manifests")]
    assert [d.generation for d in dispatched] == [1, 2, 1, 2]
    assert [m.manifest_digest for m in manifests] == [d.manifest_digest for d in dispatched]


@pytest.mark.parametrize("seed", range(12))
async def test_faults_at_every_step_change_nothing(make_world, seed: int) -> None:
    random = Random(seed)
    left = {"n": 40}

    def fault(seat, records):
        if left["n"] <= 0 or random.random() > 0.4:
            return None
        left["n"] -= 1
        # The receive log is written by a process that outlives its partition: a death after the commit would take the
        # relays with it, which is what leases are for and tested on its own.
        return random.choice(["before", "lost", "abort", "after"])

    world = make_world(plain if seed % 2 else cut_once, seed=seed, partitions=2)
    for number in range(4):
        world.ask(f"c{number}", f"r{number}", "How is the weather?")
    await settle(world, fault=fault)
    check(world, 4)


@pytest.mark.parametrize("seed", range(6))
async def test_a_lost_redis_is_rebuilt_from_the_log(make_world, seed: int) -> None:
    """Every key is gone in the middle of the run: what was committed stays, what was not is done again."""
    random = Random(seed)
    world = make_world(plain, seed=seed)
    world.ask("c0", "r0", "How is the weather?")
    await world.fleet.idle("recovery")
    left = {"steps": random.randint(1, 25)}

    def lose_redis(seat, records):
        left["steps"] -= 1
        if not left["steps"]:
            raise RedisLost

    with suppress(RedisLost):
        await world.fleet.run(fault=lose_redis)
    await flush(world.redis, world.prefix)
    for role in ("recovery", "validator", "dispatcher", "reassembler", "ledger"):
        await world.fleet.crash(role)
    await settle(world)
    check(world, 1)


async def flush(redis: Redis, prefix: str) -> None:
    keys = [key async for key in redis.scan_iter(match=f"{prefix}:*", count=1000)]
    if keys:
        await redis.delete(*keys)
