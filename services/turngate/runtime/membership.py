"""A worker's place in its group: one consumer at a time, and a new one where aiokafka has given one up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)

from turngate.runtime.consumer import Rebalances, group_consumer, has_given_up, rejoin
from turngate.runtime.errors import MissingOffset
from turngate.runtime.logging import Log
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError
from turngate.topology.groups import RoleSpec
from turngate.topology.reading import read_steadily

REJOIN_FIRST_SECONDS = 0.1
REJOIN_MAX_SECONDS = 5.0
CALM_SECONDS = 30.0
"""Without a lost partition or membership for so long, the next rejoin is quick again."""


class Membership:
    """on_revoked runs before every join, and whenever a consumer is given up; on_assigned must not await anything."""

    def __init__(
        self,
        settings: Settings,
        role: RoleSpec,
        topics: Iterable[str],
        *,
        on_revoked: Callable[[], Awaitable[None]],
        on_assigned: Callable[[Iterable[TopicPartition]], None],
        random: Callable[[], float],
        log: Log,
    ) -> None:
        self._settings = settings
        self._role = role
        self._group = role.group(settings.topic_prefix)
        self._topics = tuple(topics)
        self._on_revoked = on_revoked
        self._on_assigned = on_assigned
        self._random = random
        self._log = log
        self._consumer: AIOKafkaConsumer | None = None
        self._lost_at = 0.0
        self._pause = REJOIN_FIRST_SECONDS

    @property
    def consumer(self) -> AIOKafkaConsumer:
        """The present one. Only after `join` has begun."""
        assert self._consumer is not None, "joined before"
        return self._consumer

    async def join(self) -> None:
        """Become a member and have an assignment, however many attempts that takes.

        aiokafka gives a consumer up for good when a join goes wrong in a way it does not know, as with an empty
        assignment, which a broker gives to a member that the leader of the group has left out.

        Raises ConfigurationError for what no repetition mends.
        """
        while True:
            self._consumer = group_consumer(self._settings, self._group, self._role.isolation)
            self._consumer.subscribe(topics=self._topics, listener=Rebalances(self._on_revoked, self._on_assigned))
            try:
                await self._consumer.start()
            except KafkaError as error:
                self._refuse_hopeless(error)
                await self._give_up(error)
            else:
                read_steadily(self._consumer)
                return

    async def recover(self, error: KafkaError) -> None:
        """What to do about a fetch that failed: wait a little, or join anew.

        Raises MissingOffset, or ConfigurationError for what no repetition mends.
        """
        if isinstance(error, NoOffsetForPartitionError | OffsetOutOfRangeError):
            raise MissingOffset(
                f"group {self._group}: a committed offset is missing or no longer on the broker "
                f"({type(error).__name__}). Check the retention of its inputs with `turngate topology check`, then "
                "commit the right offsets"
            ) from error
        self._refuse_hopeless(error)
        if has_given_up(self.consumer):
            await self._give_up(error)
            await self.join()
        else:
            self._log.warning("fetch_failed", error=type(error).__name__)
            await asyncio.sleep(REJOIN_FIRST_SECONDS)

    async def back_off(self) -> None:
        """The pause before joining again: longer each time, until nothing was lost for a while."""
        now = asyncio.get_running_loop().time()
        if now - self._lost_at > CALM_SECONDS:
            self._pause = REJOIN_FIRST_SECONDS
        self._lost_at = now
        await asyncio.sleep(self._pause * (0.5 + self._random() / 2))
        self._pause = min(self._pause * 2, REJOIN_MAX_SECONDS)

    def rejoin(self) -> None:
        """Join again with the same consumer, as a rebalance would."""
        rejoin(self.consumer)

    async def leave(self) -> None:
        """For good; nothing happens when it was never joined."""
        if self._consumer is not None:
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(self._settings.drain_seconds):
                    await self._consumer.stop()

    async def _give_up(self, error: KafkaError) -> None:
        """What the partitions hold is kept for when they come back."""
        self._log.warning("membership_lost", error=type(error).__name__)
        await self._on_revoked()
        with suppress(KafkaError):
            await self.consumer.stop()
        await self.back_off()

    def _refuse_hopeless(self, error: KafkaError) -> None:
        if isinstance(error, CorruptRecordException | UnsupportedCodecError):
            # With it went what the call had taken of other partitions: only a fresh start reads that again.
            raise ConfigurationError(
                f"group {self._group}: a batch on one of its inputs cannot be read ({type(error).__name__}). Where a "
                "producer compresses with a codec that is not installed here, set another one there, or "
                "compression.type of the topic"
            ) from error
        if "Authorization" in type(error).__name__:
            raise ConfigurationError(f"{self._group}: {type(error).__name__}; grant its ACLs") from error
        if isinstance(error, InvalidSessionTimeoutError):
            raise ConfigurationError(
                f"TURNGATE_SESSION_TIMEOUT_MS: the broker allows no {self._settings.session_timeout_ms} ms "
                "(group.min.session.timeout.ms to group.max.session.timeout.ms)"
            ) from error
        if isinstance(error, InconsistentGroupProtocolError):
            raise ConfigurationError(
                f"{self._group}: its members are of another kind; something else uses this group"
            ) from error
