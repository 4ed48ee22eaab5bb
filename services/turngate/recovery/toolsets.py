"""Brings toolsets back into a Redis that lost them: they are immutable, so whoever reads them may store them."""

from __future__ import annotations

from turngate.recovery.reconcile import LogReader
from turngate.runtime.redis.registry import Toolsets
from turngate.schemas.codec import decode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.tools import Toolset, toolset_digest

TOPIC = "toolsets"


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
        """Stores them all; returns how many. What does not match its digest is passed over."""
        count = 0
        for partition in range(self._partitions):
            end = (await self._reader.end_offsets(partition, [TOPIC]))[TOPIC]
            async for record in self._reader.read(TOPIC, partition, 0, end):
                try:
                    toolset = decode(Toolset, record.value)
                except (InvalidRecord, UnknownSchema):
                    continue
                if toolset.toolset_digest == toolset_digest(toolset.tenant, toolset.tools):
                    await self._toolsets.put(toolset)
                    count += 1
        return count
