"""`turngate run edge` as a process: what is on session-events reaches clients, and what they ask for reaches topics."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.devstack.supervisor import ProcessSpec, role_argv
from turngate.schemas.codec import decode
from turngate.schemas.control import Control
from turngate.schemas.requests import TurnRequest
from turngate.schemas.tools import Toolset
from turngate.topology.keys import partition_of
from turngate.topology.pacing import pace_empty_fetches
from turngate.topology.topics import TOPICS

pytestmark = pytest.mark.kafka
KEY = b"acme/c1"
PARTITIONS = 2
TOKENS = {"acme": ["let-acme-in", "let-acme-in-too"], "other": ["let-other-in"]}
CALLER = {"Authorization": "Bearer let-acme-in"}
TURN = {
    "blocks": [{"role": "user", "content": {"text": "grüß Gott"}}],
    "options": {"endpoint": "openai", "model": "m", "maxOutputTokens": 10},
}
Make = Callable[..., bytes]


@dataclass
class Edge:
    """The running role, with two instances behind one set of buffers."""

    fleet: DevFleet
    urls: tuple[str, str]
    client: httpx2.AsyncClient
    redis: Redis

    async def produce(self, *values: bytes, topic: str = "session-events", key: bytes = KEY) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.fleet.stack.kafka_bootstrap) as producer:
            for value in values:
                name = TOPICS[topic].full_name(self.fleet.plan.prefix)
                await producer.send_and_wait(name, value, key=key, partition=partition_of(key, PARTITIONS))

    async def first(self, topic: str) -> Any:
        """The first record of a topic, once there is one."""
        name = TOPICS[topic].full_name(self.fleet.plan.prefix)
        async with AIOKafkaConsumer(
            bootstrap_servers=self.fleet.stack.kafka_bootstrap, enable_auto_commit=False
        ) as consumer:
            pace_empty_fetches(consumer)
            tps = [TopicPartition(name, number) for number in range(PARTITIONS)]
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            async with asyncio.timeout(30):
                return await consumer.getone()

    async def post(self, path: str, body: object, **headers: str) -> httpx2.Response:
        url = f"{self.urls[0]}/v1/tenants/{path}"
        return await self.client.post(url, json=body, headers=CALLER | headers)

    @asynccontextmanager
    async def events(self, source: Any, instance: int = 0, last_id: str = "") -> AsyncIterator[Any]:
        headers = CALLER | ({"Last-Event-ID": last_id} if last_id else {})
        url = f"{self.urls[instance]}/v1/tenants/acme/conversations/c1/events"
        async with self.client.stream("GET", url, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield source(response.aiter_lines())


@pytest.fixture
async def edge(
    stack: Stack,
    topic_prefix: str,
    tmp_path: Path,
    redis: Redis,
    http: httpx2.AsyncClient,
    open_it: Callable[..., Awaitable[None]],
) -> AsyncIterator[Edge]:
    (tmp_path / "tokens.json").write_bytes(orjson.dumps(TOKENS))
    plan = FleetPlan(
        folder=tmp_path, prefix=topic_prefix, partitions=PARTITIONS, tenants="acme,other", roles=("edge", "edge-1"),
        env={"TURNGATE_EDGE_TOKENS": f"@{tmp_path / 'tokens.json'}", "TURNGATE_EDGE_HEARTBEAT_SECONDS": "0.5"},
    )  # fmt: skip
    async with TwoEdges(stack, plan) as fleet:
        await open_it(redis, topic_prefix, KEY)
        yield Edge(fleet, (fleet.url("edge"), fleet.url("edge-1")), http, redis)


class TwoEdges(DevFleet):
    """A fleet of two instances of one role."""

    def _role(self, role: str) -> ProcessSpec:
        env = self.environment(role) | {"TURNGATE_HTTP_PORT": self.url(role).rpartition(":")[2]}
        log = self.plan.folder / f"{role}.log"
        return ProcessSpec(role, role_argv("edge"), log, env, ready_url=f"{self.url(role)}/readyz")


def attempt(make: Make, *names: str) -> list[bytes]:
    """The story of one failed attempt; `names` picks its parts."""
    ids: dict[str, Any] = {"operation_id": "op-1", "generation": 0}
    text = {"relay": 1, "block_index": 0, **ids}
    story = {
        "begin": make("request_begin", "b", ordinal=0, **ids),
        "start": make("partial_text", "s", step="start", **text),
        "hello": make("partial_text", "h", step="delta", text="grüß ", text_offset=0, **text),
        "world": make("partial_text", "w", step="delta", text="Gott", text_offset=5, **text),
        "retracted": make("preview_retracted", "r", reason="failed", **ids),
        "end": make("request_end", "e", ordinal=1, status="failed", **ids),
    }
    return [story[name] for name in names or story]


async def test_a_stream_is_replayed_across_instances_and_resynced_after_a_loss(
    edge: Edge, make_event: Make, event_source: Any
) -> None:
    story = attempt(make_event)
    async with edge.events(event_source) as fresh:
        state = await fresh.next()
        assert (state.id, state.name, state.json["at"], state.json["revision"]) == ("", "task_state", None, 0)
        assert (await fresh.next(heartbeats=True)).name == "heartbeat"
        # An aborted transaction and its redo: the second delivery of each is not shown.
        await edge.produce(*story[:3], *story[:3], *story[3:4])
        seen = await fresh.take(4)
    assert [frame.data.encode() for frame in seen] == story[:4]
    epoch = seen[0].id.partition("-")[0]
    assert [frame.id for frame in seen] == [f"{epoch}-{number}" for number in range(1, 5)]
    async with edge.events(event_source, instance=1, last_id=seen[1].id) as again:
        assert [frame.id for frame in await again.take(2)] == [seen[2].id, seen[3].id]
        assert (await again.next()).json["at"] == seen[3].id
        await edge.produce(*story[4:])
        assert [frame.data.encode() for frame in await again.take(2)] == story[4:]
        buffers = [name async for name in edge.redis.scan_iter(match=f"{edge.fleet.plan.prefix}:*acme/c1")]
        assert len(buffers) == 2
        await edge.redis.delete(*buffers)
        after = make_event("abort", "a", control_id="x")
        await edge.produce(after)
        assert [(frame.id, frame.name) for frame in await again.take(2)] == [
            ("", "resync_required"),
            ("", "task_state"),
        ]
        first = await again.next()
        assert first.data.encode() == after
        assert first.id.endswith("-1")
        assert int(first.id.partition("-")[0]) > int(epoch)
    async with edge.events(event_source, last_id=seen[3].id) as late:
        assert [frame.name for frame in await late.take(2)] == ["resync_required", "task_state"]


async def test_what_is_asked_for_is_on_its_topic_when_the_answer_comes(edge: Edge) -> None:
    answer = await edge.post("acme/conversations/c1/turns", TURN | {"requestId": "my-1"})
    assert (answer.status_code, answer.json()) == (202, {"requestId": "my-1"})
    record = await edge.first("turn-requests")
    assert (record.key, record.partition) == (KEY, partition_of(KEY, PARTITIONS))
    wanted = decode(TurnRequest, record.value)
    assert (wanted.tenant, wanted.conversation, wanted.request_id) == ("acme", "c1", "my-1")
    assert wanted.blocks[0].content.text == "grüß Gott"
    drawn = await edge.post("acme/conversations/c1/turns", TURN)
    assert drawn.status_code == 202
    assert len(drawn.json()["requestId"]) >= 32

    answer = await edge.post("acme/conversations/c1/cancel", {"operationId": "op-1", "reason": "enough"})
    assert answer.status_code == 202
    control = decode(Control, (await edge.first("control")).value)
    assert (control.command, control.operation_id, control.control_id) == ("cancel", "op-1", answer.json()["controlId"])

    tool = {"name": "find", "inputSchema": '{"type":"object"}', "sideEffects": "read"}
    url = f"{edge.urls[1]}/v1/tenants/acme/toolsets"
    put = await edge.client.put(url, json={"tools": [tool]}, headers=CALLER)
    assert put.status_code == 200, put.text
    kept = await edge.first("toolsets")
    assert decode(Toolset, kept.value).toolset_digest == put.json()["toolsetDigest"]
    assert kept.key == b"acme/toolsets"


REFUSALS: list[tuple[str, object, dict[str, str], int, str, str]] = [
    ("acme/conversations/c1/turns", TURN, {"Authorization": ""}, 401, "unauthorized", ""),
    ("acme/conversations/c1/turns", TURN, {"Authorization": "Bearer wrong"}, 401, "unauthorized", ""),
    ("acme/conversations/c1/turns", TURN, {"Authorization": "Bearer let-other-in"}, 404, "unknown_tenant", ""),
    ("nobody/conversations/c1/turns", TURN, {}, 404, "unknown_tenant", ""),
    ("acme/conversations/a|b/turns", TURN, {}, 400, "invalid_conversation", ""),
    ("acme/conversations/c1/turns", [], {}, 400, "malformed_json", ""),
    ("acme/conversations/c1/turns", TURN | {"requestId": "auto/3"}, {}, 400, "invalid_id", "requestId"),
    ("acme/conversations/c1/turns", TURN | {"causeId": "x"}, {}, 400, "reserved_field", "causeId"),
    ("acme/conversations/c1/turns", TURN | {"tenant": "other"}, {}, 400, "address_mismatch", "tenant"),
    ("acme/conversations/c1/turns", {"options": {}}, {}, 400, "invalid_record", "options.endpoint"),
    ("acme/conversations/c1/turns", TURN | {"x": "y" * 1_100_000}, {}, 413, "too_large", ""),
    ("acme/conversations/c1/cancel", {}, {}, 400, "incomplete_command", ""),
    ("acme/conversations/c1/cancel", {"callKey": "k"}, {}, 400, "invalid_record", ""),
]


async def test_what_cannot_be_is_refused_with_a_code_and_nothing_is_written(edge: Edge) -> None:
    for path, body, headers, status, code, place in REFUSALS:
        answer = await edge.post(path, body, **headers)
        found = (answer.status_code, answer.json()["code"], answer.json().get("path", ""))
        assert found == (status, code, place), (path, headers)
        assert "let-" not in answer.text
    url = f"{edge.urls[0]}/v1/tenants/acme/conversations/c1/turns"
    twice = await edge.client.post(url, content=b'{"requestId":"a","requestId":"b"}', headers=CALLER)
    assert (twice.status_code, twice.json()["code"]) == (400, "duplicate_key")

    def tool(name: str, schema: str) -> dict[str, str]:
        return {"name": name, "inputSchema": schema, "sideEffects": "read"}

    for tools, code, place in (
        (
            [tool("a", '{"type":"object","properties":{"x":{"$ref":"http://x/y"}}}')],
            "unsupported_schema",
            "/a/properties/x",
        ),
        ([tool("a", "{")], "malformed_json", "/a"),
        ([tool("a", "{}"), tool("a", "{}")], "duplicate_tool", "/a"),
    ):
        url = f"{edge.urls[0]}/v1/tenants/acme/toolsets"
        answer = await edge.client.put(url, json={"tools": tools}, headers=CALLER)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
        assert answer.json()["path"].startswith(place)
    assert (await edge.post("acme/conversations/c1/turns", TURN | {"requestId": "first"})).status_code == 202
    assert decode(TurnRequest, (await edge.first("turn-requests")).value).request_id == "first"


async def test_a_closed_bucket_is_said_and_bad_records_are_passed_over(
    edge: Edge, make_event: Make, event_source: Any
) -> None:
    url = f"{edge.urls[0]}/v1/tenants/acme/conversations/never-opened/events"
    closed = await edge.client.get(url, headers=CALLER)
    assert (closed.status_code, closed.json()["code"], closed.headers["retry-after"]) == (503, "bucket_closed", "1")
    good = make_event("abort", "a", control_id="x")
    async with edge.events(event_source) as source:
        assert (await source.next()).name == "task_state"
        # Recovery reads the topic too and is the one that answers for what none of its readers can use.
        await edge.produce(b"{", good)
        assert (await source.next()).data.encode() == good


async def test_streams_end_when_the_process_is_told_to(edge: Edge, event_source: Any) -> None:
    async with edge.events(event_source) as source:
        assert (await source.next()).name == "task_state"
        began = time.monotonic()
        edge.fleet.supervisor.send("edge", signal.SIGTERM)
        with suppress(httpx2.HTTPError):
            await source.rest()
    assert await edge.fleet.supervisor.wait_exit("edge", timeout_seconds=30) == 0
    assert time.monotonic() - began < 25
