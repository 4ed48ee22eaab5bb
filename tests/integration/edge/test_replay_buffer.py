"""The contract of the replay buffer's scripts, the projector over them, and live feeds, on a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.edge.replay import NOWHERE, Append, Approval, Place, ReplayLimits, ReplayStore
from turngate.edge.service import ProjectorDeps, ProjectorHandler
from turngate.edge.tail import QUEUE_EVENTS_MAX, Hub, StreamsClosed, TooManyStreams
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.records import InputRecord
from turngate.runtime.redis.keys import CALLS, HEADS, OPS, bucket_keys, replay_keys
from turngate.runtime.redis.scripts import BucketClosed, Scripts
from turngate.topology.keys import bucket_of

pytestmark = pytest.mark.kafka
KEY = b"acme/c1"
ATTEMPT: dict[str, Any] = {"operation_id": "op-1", "generation": 0}
Make = Callable[..., bytes]


def batch(version: str, next_offset: int, *events: bytes, state: bytes = b"state") -> Append:
    return Append(KEY, version, next_offset, state, events)


async def kept(store: ReplayStore) -> list[tuple[int, bytes]]:
    found = await store.tail({store.stream_of(KEY): NOWHERE}, 1)
    return [(place.n, value) for place, value in found.get(store.stream_of(KEY), [])]


async def projector(store: ReplayStore, tenants: str = "acme") -> ProjectorHandler:
    handler = ProjectorHandler(ProjectorDeps(store, frozenset({tenants})))
    await handler.start(PartitionStart(0, 1, {}))
    return handler


def record(offset: int, value: bytes, key: bytes = KEY) -> InputRecord:
    return InputRecord("session-events", 0, offset, 0, key, value)


# --- append ------------------------------------------------------------------------------------------------------


async def test_a_batch_is_appended_once_however_often_it_is_asked_for(store: ReplayStore) -> None:
    first = batch("", 3, b"a", b"b")
    (done,) = await store.append([first], 1)
    assert done.done
    (again,) = await store.append([first], 1)
    assert (again.done, again.version, again.state) == (False, done.version, b"state")
    assert done.version.endswith(":3")
    (more,) = await store.append([batch(done.version, 4, b"c", state=b"later")], 1)
    assert more.done
    assert await kept(store) == [(1, b"a"), (2, b"b"), (3, b"c")]
    (late,) = await store.append([batch(done.version, 4, b"c")], 1)
    assert (late.done, late.state) == (False, b"later")


async def test_the_buffer_is_bounded_by_events_and_by_bytes(store: ReplayStore) -> None:
    (now,) = await store.append([batch("", 1, *(bytes([letter]) for letter in b"abcdef"))], 1)
    assert [value for _, value in await kept(store)] == [b"c", b"d", b"e", b"f"]
    (now,) = await store.append([batch(now.version, 2, b"g" * 3_999)], 1)
    assert [number for number, _ in await kept(store)] == [6, 7]
    await store.append([batch(now.version, 3, b"h" * 9_000)], 1)
    assert [number for number, _ in await kept(store)] == [8], "the newest is kept, however large it is"


async def test_a_buffer_expires_as_a_whole(redis: Redis, redis_prefix: str) -> None:
    store = ReplayStore(Scripts(redis, redis_prefix, "edge"), ReplayLimits(4, 4_000, 60_000))
    await store.append([batch("", 1, b"a")], 1)
    left = [await redis.pttl(name) for name in replay_keys(redis_prefix, bucket_of(KEY), KEY.decode())]
    assert all(0 < time_ms <= 60_000 for time_ms in left)


@pytest.mark.parametrize("loss", ["wiped", "another server"])
async def test_after_a_loss_the_epoch_is_a_higher_one(
    loss: str, store: ReplayStore, redis: Redis, redis_prefix: str
) -> None:
    (before,) = await store.append([batch("", 9, b"a", b"b")], 1)
    old = await store.end(KEY)
    state, stream = replay_keys(redis_prefix, bucket_of(KEY), KEY.decode())
    if loss == "wiped":
        await redis.delete(state, stream)
        await asyncio.sleep(0.002)  # epochs are the server's milliseconds
    else:
        await redis.hset(state, "replid", "f" * 40)
    (refused,) = await store.append([batch(before.version, 10, b"c")], 1)
    assert (refused.done, refused.version, refused.state) == (False, "", b"")
    (now,) = await store.append([batch("", 10, b"c")], 1)
    assert now.done
    new = await store.end(KEY)
    assert new.epoch > old.epoch
    assert await kept(store) == [(1, b"c")]
    assert await store.since(KEY, old) is None


async def test_replay_gives_the_gap_or_says_that_it_cannot(store: ReplayStore) -> None:
    assert await store.end(KEY) == NOWHERE
    await store.append([batch("", 1, *(bytes([letter]) for letter in b"abcdef"))], 1)
    end = await store.end(KEY)
    gap = await store.since(KEY, Place(end.epoch, 4))
    assert gap is not None
    assert [(place.n, value) for place, value in gap] == [(5, b"e"), (6, b"f")]
    assert await store.since(KEY, end) == []
    for lost in (Place(end.epoch, 2), Place(end.epoch, 7), Place(end.epoch - 1, 5), NOWHERE):
        assert await store.since(KEY, lost) is None, lost


@pytest.mark.parametrize("text", ["", "x", "1", "1-", "-1", "1-2-3", "01-1", "1-1\n", "9" * 17 + "-1", "1_0-1"])
def test_what_is_no_id_of_ours_is_not_read_as_one(text: str) -> None:
    assert Place.parse(text) is None
    assert Place.parse(str(Place(12, 3))) == Place(12, 3)


# --- snapshot ----------------------------------------------------------------------------------------------------


async def test_the_snapshot_is_that_of_an_open_bucket(
    store: ReplayStore, redis: Redis, redis_prefix: str, open_it: Callable[..., Awaitable[None]]
) -> None:
    with pytest.raises(BucketClosed):
        await store.snapshot(KEY)
    await open_it(redis, redis_prefix, KEY)
    empty = await store.snapshot(KEY)
    assert (empty.revision, empty.operation_id, empty.open_calls, empty.approvals) == (0, "", None, ())
    keys, c = bucket_keys(redis_prefix, bucket_of(KEY)), KEY.decode()
    await redis.hset(
        keys[HEADS], mapping={f"{c}|rev": 4, f"{c}|cg": 2, f"{c}|op": "op-9", f"{c}|calls": 4, f"{c}|paused": "why"}
    )
    await redis.hset(keys[OPS], mapping={"op-9|st": "STREAMING", "op-9|gen": 3})
    calls = {f"{c}|4|n": 2, f"{c}|4|1": "k1", f"{c}|4|2": "k2", "k1|st": "ORDERED", "k1|tool": "a"}
    await redis.hset(keys[CALLS], mapping=calls | {"k2|st": "AWAITING_APPROVAL", "k2|tool": "pay"})
    full = await store.snapshot(KEY)
    assert (full.revision, full.cancel_generation, full.open_calls, full.paused) == (4, 2, 4, "why")
    assert (full.operation_id, full.state, full.generation) == ("op-9", "STREAMING", 3)
    assert full.approvals == (Approval("k2", "pay"),)


# --- projector ---------------------------------------------------------------------------------------------------


async def test_a_redelivery_never_numbers_an_event_twice(store: ReplayStore, make_event: Make) -> None:
    begin = make_event("request_begin", "e1", ordinal=0, **ATTEMPT)
    delta = make_event(
        "partial_text", "e2", relay=1, block_index=0, step="delta", text="hello", text_offset=0, **ATTEMPT
    )
    end = make_event("request_end", "e3", ordinal=1, status="failed", **ATTEMPT)
    records = [record(7, begin), record(8, delta), record(9, delta), record(10, end)]
    owner, zombie = await projector(store), await projector(store)
    await owner.step(records[:2])
    await owner.step(records[:3])
    await zombie.step(records)
    await owner.step(records)
    await (await projector(store)).step([*records, record(11, begin)])
    assert [value for _, value in await kept(store)] == [begin, delta, end]


@pytest.mark.parametrize(
    ("value", "tenants", "reason"),
    [(b"{", "acme", "malformed_json"), (b"", "other", "unknown_tenant"), (b"", "acme", "key_mismatch")],
)
async def test_a_bad_record_is_poison_and_nothing_is_appended(
    value: bytes, tenants: str, reason: str, store: ReplayStore, make_event: Make
) -> None:
    good = make_event("abort", "e1", control_id="x")
    bad = record(2, value or good, b"acme/c2" if reason == "key_mismatch" else KEY)
    with pytest.raises(Poison) as caught:
        await (await projector(store, tenants)).step([bad, record(3, good)])
    assert caught.value.reason_code == reason
    assert await store.end(KEY) == NOWHERE


# --- live --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def hub(store: ReplayStore) -> Any:
    hub = Hub(store, streams_max=2, check_seconds=0.2)
    polling = asyncio.create_task(hub.run(time.monotonic))
    yield hub
    hub.close()
    await polling


async def test_all_clients_of_a_conversation_get_what_is_appended(hub: Hub, store: ReplayStore) -> None:
    (now,) = await store.append([batch("", 1, b"old")], 1)
    clients = [await hub.subscribe(KEY), await hub.subscribe(KEY)]
    with pytest.raises(TooManyStreams):
        await hub.subscribe(b"acme/c2")
    await store.append([batch(now.version, 2, b"new")], 1)
    async with asyncio.timeout(10):
        items = [await client.queue.get() for client in clients]
    assert [item and item[1] for item in items] == [b"new", b"new"]
    hub.unsubscribe(clients[0])
    hub.unsubscribe(clients[0])
    other = await hub.subscribe(b"acme/c2")
    hub.close()
    assert clients[1].over.is_set()
    assert other.over.is_set()
    with pytest.raises(StreamsClosed):
        await hub.subscribe(KEY)


@pytest.mark.parametrize("epoch", ["higher", "lower"])
async def test_a_new_buffer_is_marked_before_its_events(
    epoch: str, hub: Hub, store: ReplayStore, redis: Redis, redis_prefix: str
) -> None:
    await store.append([batch("", 1, b"old")], 1)
    client = await hub.subscribe(KEY)
    await redis.delete(*replay_keys(redis_prefix, bucket_of(KEY), KEY.decode()))
    if epoch == "higher":
        await asyncio.sleep(0.002)
        await store.append([batch("", 2, b"new")], 1)
    else:
        await redis.xadd(store.stream_of(KEY), {"e": b"new"}, id="5-1")
    async with asyncio.timeout(10):
        assert await client.queue.get() is None
        item = await client.queue.get()
    assert item is not None
    assert (item[0].n, item[1]) == (1, b"new")


async def test_a_client_that_does_not_keep_up_is_cut_off(hub: Hub, store: ReplayStore) -> None:
    slow = await hub.subscribe(KEY)
    for number in range(QUEUE_EVENTS_MAX + 1):
        assert not slow.over.is_set()
        slow.feed.take([(Place(1, number + 1), b"x")])
    assert slow.over.is_set()


async def test_the_poller_outlives_a_redis_that_is_away(fresh_stack: Stack) -> None:
    redis = Redis.from_url(fresh_stack.redis_url)
    store = ReplayStore(Scripts(redis, "t", "edge"), ReplayLimits(4, 4_000, 60_000))
    hub = Hub(store, streams_max=2, check_seconds=0.2)
    polling = asyncio.create_task(hub.run(time.monotonic))
    try:
        client = await hub.subscribe(KEY)
        await fresh_stack.restart_redis(graceful=True)
        await store.append([batch("", 1, b"a")], 1)
        async with asyncio.timeout(30):
            item = await client.queue.get()
        assert item is not None
        assert item[1] == b"a"
        assert not polling.done()
    finally:
        hub.close()
        await polling
        await redis.aclose()
