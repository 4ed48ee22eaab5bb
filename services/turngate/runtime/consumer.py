"""The one seam to aiokafka's group consumer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from turngate.runtime.settings import Settings
from turngate.topology.desired import HEADROOM_BYTES
from turngate.topology.groups import Isolation
from turngate.topology.topics import MIB, TOPICS

FETCH_WAIT_MS = 100
"""Longest wait of a fetch without data; a partition resumed meanwhile waits for it too."""

FETCH_PARTITION_BYTES = 2 * max(spec.bytes_max for spec in TOPICS.values()) + HEADROOM_BYTES
FETCH_BYTES = 4 * FETCH_PARTITION_BYTES
POLL_INTERVAL_MS = 24 * 3_600_000
"""A worker whose queues are all full does not poll; that is backpressure, no sign of death."""


@ConsumerRebalanceListener.register  # not a base: aiokafka has no types, and awaits what it declares as plain
class Rebalances:
    """Hands rebalances on. `assigned` must not await anything: heartbeats start only after it."""

    def __init__(
        self,
        revoked: Callable[[], Awaitable[None]],
        assigned: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        self._revoked = revoked
        self._assigned = assigned

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._revoked()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._assigned(assigned)


def group_consumer(
    settings: Settings,
    group: str,
    isolation: Isolation,
    *,
    assignor: object = RangePartitionAssignor,
    offset_reset: Literal["none", "earliest"] = "none",
) -> AIOKafkaConsumer:
    """A member of a role's group: no commits of its own, and unless told otherwise no offset ever assumed."""
    return AIOKafkaConsumer(
        bootstrap_servers=settings.kafka,
        group_id=group,
        group_instance_id=settings.instance_id if settings.static_membership else None,
        isolation_level=isolation,
        partition_assignment_strategy=(assignor,),
        enable_auto_commit=False,
        auto_offset_reset=offset_reset,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=min(3_000, settings.session_timeout_ms // 4),
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        max_poll_interval_ms=POLL_INTERVAL_MS,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        max_partition_fetch_bytes=FETCH_PARTITION_BYTES,
        fetch_max_bytes=max(FETCH_BYTES, 32 * MIB),
        **settings.kafka_client_options(),
    )


def rejoin(consumer: AIOKafkaConsumer) -> None:
    """Joins the group again, as a rebalance would."""
    coordinator: Any = getattr(consumer, "_coordinator")  # noqa: B009 - aiokafka offers no public way
    coordinator.request_rejoin()


def has_given_up(consumer: AIOKafkaConsumer) -> bool:
    """Whether its membership ended by an error it does not recover from: it fetches no more, whatever happens."""
    coordinator: Any = getattr(consumer, "_coordinator")  # noqa: B009 - aiokafka offers no public way
    return bool(coordinator._coordination_task.done())


def lag_records(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int:
    """Records on the broker that were not fetched yet, control records not counted once passed; 0 if unknown."""
    if tp not in consumer.assignment():
        return 0
    subscription: Any = getattr(consumer, "_subscription")  # noqa: B009 - the public position() may wait
    state = subscription.subscription.assignment.state_value(tp)
    if state is None or not state.has_valid_position:
        return 0
    end = state.lso if state.lso is not None and state.lso >= 0 else state.highwater
    return max(0, int(end) - int(state.position)) if end is not None else 0
