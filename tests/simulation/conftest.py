"""A simulated fleet: memory log, real Redis, real handlers of the commit path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.dispatcher.relays import Relay
from turngate.dispatcher.service import DispatcherDeps, DispatcherHandler
from turngate.domain.dispatch.retry import RetryPolicy
from turngate.ledger.service import LedgerDeps, LedgerHandler
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.recovery.reconcile import Reconciler
from turngate.recovery.service import RecoveryDeps, RecoveryHandler
from turngate.recovery.store import RecoveryStore
from turngate.recovery.toolsets import ToolsetLoader
from turngate.runtime.clock import ManualClock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import output
from turngate.runtime.records import InputRecord
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.blocks import BlockContent
from turngate.schemas.envelope import conversation_key
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.tools import ReplyTo, ToolDeclaration, Toolset, toolset_digest
from turngate.testing.fleet import Fleet, HandlerFactory
from turngate.testing.memory_log import MemoryLog
from turngate.testing.scripted import Answer, ScriptedRelays
from turngate.topology.keys import bucket_of, partition_of
from turngate.validator.service import ValidatorDeps, ValidatorHandler

TENANT = "acme"
LEASE_MS = 400
CONVERSATIONS = tuple(f"c{number}" for number in range(8))
BUCKETS_IN_USE = sorted({bucket_of(conversation_key(TENANT, name)) for name in CONVERSATIONS})
"""Recovery owns these alone: looking into the other thousand at every step is all that a run would be busy with."""


class MemoryReader:
    """The reconcile's view of the log."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    async def end_offsets(self, partition: int, topics: Sequence[str]) -> dict[str, int]:
        return {topic: self._log.end(topic, partition) for topic in topics}

    async def read(self, topic: str, partition: int, start: int, end: int) -> AsyncIterator[InputRecord]:
        for record in self._log.read(topic, partition, start, committed=True, limit=10**9):
            if record.offset < end:
                yield record


class MemoryFencer:
    """Handlers of a simulated fleet step one after the other, so there is no open transaction to fence."""

    def __init__(self) -> None:
        self.fenced: list[str] = []

    async def fence(self, transactional_ids: Sequence[str]) -> None:
        self.fenced += transactional_ids


@dataclass
class World:
    """Everything a simulation needs at hand."""

    redis: Redis
    prefix: str
    log: MemoryLog
    fleet: Fleet
    relays: ScriptedRelays
    clock: ManualClock
    toolset: Toolset
    fencer: MemoryFencer

    def ask(self, conversation: str, request_id: str, text: str | None, **options: object) -> None:
        assert conversation in CONVERSATIONS, "recovery would not own its bucket"
        request = TurnRequest(
            tenant=TENANT,
            conversation=conversation,
            request_id=request_id,
            blocks=() if text is None else (NewBlock(role="user", content=BlockContent(text=text)),),
            options=TurnOptions.model_validate(
                {
                    "endpoint": "openai",
                    "model": "m-1",
                    "max_output_tokens": 256,
                    "toolset_digest": self.toolset.toolset_digest,
                    **options,
                }
            ),
        )
        self.log.append(
            output("turn-requests", request, tenant=TENANT, conversation=conversation, event_id=request_id, role="test")
        )


def toolset() -> Toolset:
    schema = (
        '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'
    )
    tools = (
        ToolDeclaration(name="weather", description="Weather", input_schema=schema, side_effects="read"),
        ToolDeclaration(name="book", description="Book", input_schema=schema, side_effects="at_most_once"),
    )
    return Toolset(tenant=TENANT, tools=tools, toolset_digest=toolset_digest(TENANT, tools))


MakeWorld = Callable[..., World]


@dataclass(frozen=True)
class Common:
    """What all roles of a world share."""

    redis: Redis
    prefix: str
    log: MemoryLog
    relays: ScriptedRelays
    endpoints: dict[str, Endpoint]
    clock: ManualClock
    toolsets: Toolsets
    reader: MemoryReader
    fencer: MemoryFencer
    metrics: Metrics = field(default_factory=Metrics)
    tenants: frozenset[str] = frozenset({TENANT})

    def scripts(self, role: str) -> Scripts:
        return Scripts(self.redis, self.prefix, role)

    def buckets(self, partition: int) -> list[int]:
        return [bucket for bucket in BUCKETS_IN_USE if bucket % self.log.partitions == partition]

    def reconciler(self, partition: int, store: RecoveryStore) -> Reconciler:
        return Reconciler(
            partition=partition,
            buckets=self.buckets(partition),
            store=store,
            reader=self.reader,
            fencer=self.fencer,
            transactional_id=lambda role, number: f"{role}.{number}",
            new_token=lambda: "token",
            lease_ms=LEASE_MS,
        )


def factories(c: Common) -> dict[str, HandlerFactory]:
    """The commit path's real handlers."""
    v = ValidatorDeps(c.scripts("validator"), c.toolsets, c.endpoints, c.tenants, c.clock, c.metrics)
    d = DispatcherDeps(
        c.scripts("dispatcher"), c.toolsets, c.endpoints, c.tenants, c.relays, c.clock, c.metrics,
        "d-0", 1, LEASE_MS, "r",
    )  # fmt: skip
    r = ReassemblerDeps(c.scripts("reassembler"), c.toolsets, c.metrics, RetryPolicy(base_ms=1, ceiling_ms=1))
    led = LedgerDeps(
        c.scripts("ledger"), c.toolsets, c.tenants, c.clock, c.metrics,
        lambda key: ReplyTo(topic="tool-results", partition=partition_of(key, c.log.partitions)),
    )  # fmt: skip
    rec = RecoveryDeps(
        c.scripts("recovery"), c.endpoints, c.tenants, c.clock, c.reader, c.reconciler, c.buckets,
        ToolsetLoader(c.reader, c.toolsets, c.log.partitions), LEASE_MS,
    )  # fmt: skip
    return {
        "validator": lambda p: ValidatorHandler(v),
        "dispatcher": lambda p: DispatcherHandler(d),
        "reassembler": lambda p: ReassemblerHandler(r),
        "ledger": lambda p: LedgerHandler(led),
        "recovery": lambda p: RecoveryHandler(p, rec),
    }


@pytest.fixture
async def make_world(stack: Stack, redis_prefix: str) -> AsyncIterator[MakeWorld]:
    """Builds a world from an answer function; one Redis key prefix for each."""
    client = Redis.from_url(stack.redis_url)
    made: list[World] = []

    def build(answer: Callable[[Relay], Answer], *, seed: int = 1, partitions: int = 1, closes: bool = True) -> World:
        prefix = f"{redis_prefix}{len(made)}"
        log = MemoryLog(partitions=partitions)
        endpoint = Endpoint(
            name="openai",
            api="openai-chat",
            profile="openai",
            base_url="http://127.0.0.1:1/v1",
            close_ends_generation=closes,
        )
        common = Common(
            client, prefix, log, ScriptedRelays(log, answer), {"openai": endpoint}, ManualClock(),
            Toolsets(client, prefix), MemoryReader(log), MemoryFencer(),
        )  # fmt: skip
        fleet = Fleet(log, factories(common), Random(seed))
        tools = toolset()
        world = World(client, prefix, log, fleet, common.relays, common.clock, tools, common.fencer)
        made.append(world)
        log.append(
            output(
                "toolsets", tools, tenant=TENANT, conversation="toolset", event_id="toolset", role="test", partition=0
            )
        )
        return world

    yield build
    await client.aclose()
