"""A producer that was fenced says so once: where it is used, and not again in a log line of the event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition

from turngate.devstack.base import Stack
from turngate.runtime.errors import LostFence
from turngate.runtime.producer import TransactionalProducer
from turngate.runtime.records import Output, Position
from turngate.runtime.settings import Settings
from turngate.topology.provision import apply_topology
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


async def fence(settings: Settings, ident: str, offsets: Mapping[TopicPartition, Position]) -> None:
    """One producer takes a transactional id from another, which then commits."""
    first, second = TransactionalProducer(settings, ident), TransactionalProducer(settings, ident)
    await first.start()
    await first.stage([Output("verdicts", b"acme/c1", b"{}")])
    await second.start()
    try:
        await first.commit("group", offsets)
    except LostFence:
        return
    finally:
        await first.stop()
        await second.stop()
    raise AssertionError("a fenced producer went on")


async def test_nothing_is_reported_as_never_retrieved(stack: Stack, topic_prefix: str) -> None:
    settings = Settings(
        kafka=stack.kafka_bootstrap, redis=stack.redis_url, topic_prefix=topic_prefix, partitions=4, environment="dev"
    )
    await apply_topology(stack.kafka_bootstrap, prefix=topic_prefix, partitions=4, environment="dev")
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    turns = TopicPartition(TOPICS["turns"].full_name(topic_prefix), 0)
    for number, offsets in enumerate(({}, {turns: Position(0, "")})):
        await fence(settings, f"{topic_prefix}.once{number}", offsets)
        gc.collect()
        await asyncio.sleep(0)
    assert reported == []
