"""The canonical commit on the broker: its reply is lost, or Redis restarts, between the CAS and the transaction.

The line up to the frames is simulated; the reassembler is the shared worker on the broker.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from redis.asyncio import Redis

from turngate.dispatcher.relays import Relay
from turngate.domain.dispatch.retry import RetryPolicy
from turngate.reassembler import conclude
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.clock import SystemClock
from turngate.runtime.metrics import Metrics
from turngate.runtime.redis.keys import TURNS, bucket_keys
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Answer as Reply
from turngate.runtime.redis.scripts import RedisUnavailable, Scripts
from turngate.runtime.settings import Settings
from turngate.runtime.worker import Worker
from turngate.schemas.codec import decode
from turngate.schemas.envelope import conversation_key
from turngate.schemas.turn import Turn
from turngate.testing.scripted import Answer
from turngate.topology.groups import ROLES
from turngate.topology.keys import bucket_of, partition_of
from turngate.topology.provision import apply_topology
from turngate.topology.reading import read_steadily
from turngate.topology.topics import TOPICS

pytestmark = pytest.mark.kafka

PARTITIONS = 4
WAIT_SECONDS = 40.0
KEY = conversation_key("acme", "c0")


def chunk(delta: dict[str, object], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "one", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}
    return json.dumps(body)


def answer(relay: Relay) -> Answer:
    return Answer((chunk({"content": "Cold and "}), chunk({"content": "warm."}), chunk({}, "stop"), "[DONE]"))


class LostReplies(Scripts):
    """The first commit is carried out, then something happens, and its reply never comes."""

    def __init__(self, redis: Redis, prefix: str, happens: Any) -> None:
        super().__init__(redis, prefix, "reassembler")
        self._happens = happens
        self.lost = 0

    async def run(self, script: str, bucket: int, term: int, *args: str | bytes | int) -> Reply:
        reply = await super().run(script, bucket, term, *args)
        if script == "reassembler/commit_v1" and not self.lost:
            self.lost += 1
            assert reply[0] == b"ok"
            await self._happens()
            raise RedisUnavailable("the reply was lost")
        return reply


@pytest.fixture
def line(make_world, stack, topic_prefix, monkeypatch):
    """Frames of one answered question on the broker, and a reassembler whose every turn would have other bytes."""
    built: list[Turn] = []
    build = conclude.build_assistant_turn

    def another(*args: Any, **kwargs: Any) -> Turn:
        turn = build(*args, **(kwargs | {"terminal": f"stop-{len(built)}"}))
        built.append(turn)
        return turn

    monkeypatch.setattr(conclude, "build_assistant_turn", another)

    @asynccontextmanager
    async def running(happens):
        world = make_world(answer, partitions=PARTITIONS)
        world.fleet._seats[:] = [seat for seat in world.fleet._seats if seat.role.name != "reassembler"]
        await world.fleet.idle("recovery")
        world.ask("c0", "r0", "How is the weather?")
        await world.fleet.run()
        await apply_topology(stack.kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS, environment="dev")
        producer = AIOKafkaProducer(bootstrap_servers=stack.kafka_bootstrap)
        await producer.start()
        for record in world.log.all("stream-events"):
            await producer.send_and_wait(
                full("stream-events", topic_prefix), record.value, record.key, partition_of(record.key, PARTITIONS),
                headers=list(record.headers),
            )  # fmt: skip
        await producer.stop()
        scripts = LostReplies(world.redis, world.prefix, lambda: happens(world))
        deps = ReassemblerDeps(scripts, Toolsets(world.redis, world.prefix), Metrics(), RetryPolicy())
        settings = Settings.model_validate(
            {"kafka": stack.kafka_bootstrap, "redis": stack.redis_url, "topic_prefix": topic_prefix,
             "partitions": PARTITIONS, "environment": "dev"}
        )  # fmt: skip
        worker = Worker(
            settings=settings, role=ROLES["reassembler"], handler_factory=lambda partition: ReassemblerHandler(deps),
            clock=SystemClock(), metrics=Metrics(),
        )  # fmt: skip
        task = asyncio.create_task(worker.run())
        try:
            yield world, scripts, built
        finally:
            worker.request_stop()
            await task

    return running


def full(topic: str, prefix: str) -> str:
    return TOPICS[topic].full_name(prefix)


async def committed_turns(stack, prefix: str) -> list[bytes]:
    """What a committed reader finds on `turns` once there is something, and a moment later."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=stack.kafka_bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    read_steadily(consumer)
    place = TopicPartition(full("turns", prefix), partition_of(KEY, PARTITIONS))
    try:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        found: list[bytes] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while not found:
                found += [row.value for rows in (await consumer.getmany(timeout_ms=200)).values() for row in rows]
        # A second record would follow at once: the frame that caused it has been read.
        found += [row.value for rows in (await consumer.getmany(timeout_ms=1000)).values() for row in rows]
        return found
    finally:
        await consumer.stop()


async def stored(world) -> bytes:
    key = bucket_keys(world.prefix, bucket_of(KEY))[TURNS]
    found = await world.redis.hget(key, KEY.decode() + "|2")
    assert found is not None
    return found


async def test_a_redo_after_a_lost_reply_publishes_the_stored_bytes(line, stack, topic_prefix) -> None:
    async def nothing(world) -> None:
        return None

    async with line(nothing) as (world, scripts, built):
        turns = await committed_turns(stack, topic_prefix)
        assert scripts.lost == 1
        assert len(built) >= 2, "the step was done again, by code that computes other bytes"
        assert turns == [await stored(world)]
        assert decode(Turn, turns[0]).receipt == built[0].receipt != built[1].receipt


@pytest.mark.parametrize("keep_data", [True, False], ids=["kept", "lost"])
async def test_redis_restarts_between_the_cas_and_the_transaction(line, stack, topic_prefix, keep_data: bool) -> None:
    async def restart(world) -> None:
        await stack.restart_redis(False, keep_data)

    async with line(restart) as (world, scripts, _):
        reading = asyncio.create_task(committed_turns(stack, topic_prefix))
        while not reading.done():
            if scripts.lost:
                with suppress(RedisUnavailable):  # the server is not back yet; a worker would try again too
                    await world.fleet.idle("recovery")  # its reconcile opens the bucket on the new server
            await asyncio.sleep(0.2)
        turns = [decode(Turn, value) for value in reading.result()]
        assert [(turn.revision, turn.kind) for turn in turns] == [(2, "assistant")]
        assert (await stored(world)) == reading.result()[0]
