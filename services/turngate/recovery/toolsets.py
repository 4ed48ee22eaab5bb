"""Brings toolsets back into a Redis that lost them: they are immutable, so whoever reads them may store them."""

from __future__ import annotations

from dataclasses import replace

from turngate.domain.stream import ToolsetRefusal, refusal_of
from turngate.recovery.reconcile import LogReader
from turngate.runtime.redis.registry import Toolsets
from turngate.schemas.codec import decode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.tools import Toolset, toolset_digest

TOPIC = "toolsets"


def refusal(toolset: Toolset) -> ToolsetRefusal | None:
    """Why a toolset of the topic does not become known to the fleet; whoever wrote it there did not ask the edge."""
    if toolset.toolset_digest != toolset_digest(toolset.tenant, toolset.tools):
        return ToolsetRefusal("digest_mismatch", "the toolset's digest is not that of its tools", "")
    refused = refusal_of((tool.name, tool.input_schema) for tool in toolset.tools)
    if refused is not None and refused.code == "malformed_json":
        # The record itself is sound JSON, and of a dead letter this reason would say that it is not.
        return replace(refused, code="unsupported_schema")
    return refused


class ToolsetLoader:
    """Loads every toolset of the topic, all partitions of it: a toolset is keyed by tenant, not by conversation."""

    def __init__(self, reader: LogReader, toolsets: Toolsets, partitions: int) -> None:
        self._reader = reader
        self._toolsets = toolsets
        self._partitions = partitions

    async def put(self, toolset: Toolset) -> None:
        """Stores one. Raises RedisUnavailable."""
        await self._toolsets.put(toolset)

    async def load(self) -> int:
        """Stores them all; returns how many. What is refused has its dead letter and is passed over."""
        count = 0
        for partition in range(self._partitions):
            end = (await self._reader.end_offsets(partition, [TOPIC]))[TOPIC]
            async for record in self._reader.read(TOPIC, partition, 0, end):
                try:
                    toolset = decode(Toolset, record.value)
                except (InvalidRecord, UnknownSchema):
                    continue
                if refusal(toolset) is None:
                    await self._toolsets.put(toolset)
                    count += 1
        return count
