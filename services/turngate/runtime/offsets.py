"""Reads what a group has committed, offsets and metadata, from outside of the group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from turngate.runtime.errors import BrokerNotReady, MissingOffset
from turngate.runtime.records import Position
from turngate.runtime.settings import Settings

PAUSE_SECONDS = 0.05
WAIT_SECONDS = 10.0


class GroupOffsets:
    """An admin client on one group. Safe for concurrent use."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings = settings
        self._group = group
        self._admin: AIOKafkaAdminClient | None = None

    async def start(self) -> None:
        """Raises BrokerNotReady."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._settings.kafka, **self._settings.kafka_client_options())
        try:
            await admin.start()
        except (KafkaError, OSError) as error:
            await admin.close()
            raise BrokerNotReady(f"no broker answers at TURNGATE_KAFKA ({type(error).__name__})") from error
        self._admin = admin

    async def stop(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def read(self, inputs: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The committed position of every input. Raises MissingOffset or BrokerNotReady."""
        wanted = list(inputs)
        found = await self._answered(wanted)
        missing = sorted(f"{tp.topic}/{tp.partition}" for tp, at in found.items() if at.offset < 0)
        if missing:
            raise MissingOffset(
                f"group {self._group} has no committed offset on {', '.join(missing)}. It is not read as earliest, "
                "which could repeat or skip work: commit the right offsets from a backup, or run "
                "`turngate topology apply --adopt-earliest` to have the topic read again from its beginning"
            )
        return found

    async def _answered(self, wanted: list[TopicPartition]) -> dict[TopicPartition, Position]:
        last = "no complete answer"
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    try:
                        found = await self._ask(wanted)
                    except KafkaError as error:
                        last = type(error).__name__
                    else:
                        # A coordinator that is still loading answers without partitions: no answer, not "none".
                        if len(found) == len(wanted):
                            return found
                    await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError:
            raise BrokerNotReady(f"offsets of {self._group}: {last}") from None

    async def _ask(self, wanted: list[TopicPartition]) -> dict[TopicPartition, Position]:
        assert self._admin is not None, "start first"
        answer = await self._admin.list_consumer_group_offsets(self._group, partitions=wanted)
        return {tp: Position(int(at.offset), str(at.metadata or "")) for tp, at in answer.items()}
