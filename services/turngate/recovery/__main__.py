"""`python -m turngate.recovery`, `turngate run recovery`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turngate.recovery.reconcile import Reconciler
from turngate.recovery.service import RecoveryDeps, RecoveryHandler
from turngate.recovery.store import RecoveryStore
from turngate.recovery.toolsets import ToolsetLoader
from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.kafka_log import KafkaFencer, KafkaLogReader
from turngate.runtime.redis.client import new_token, open_redis
from turngate.topology.groups import ROLES
from turngate.topology.keys import buckets_of

ROLE = "recovery"
IDLE_INTERVAL_MS = 250


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What recovery adds to the shared worker."""
    settings = context.settings
    prefix, partitions = settings.topic_prefix, settings.partitions
    reader = KafkaLogReader(settings, prefix)
    fencer = KafkaFencer(settings)
    async with open_redis(context) as redis:

        def reconciler(partition: int, store: RecoveryStore) -> Reconciler:
            return Reconciler(
                partition=partition,
                buckets=buckets_of(partition, partitions),
                store=store,
                reader=reader,
                fencer=fencer,
                transactional_id=lambda role, number: ROLES[role].transactional_id(prefix, number),
                new_token=new_token,
                lease_ms=settings.lease_ms,
            )

        deps = RecoveryDeps(
            scripts=redis.scripts,
            endpoints={endpoint.name: endpoint for endpoint in settings.endpoints},
            tenants=frozenset(settings.tenants),
            clock=context.clock,
            reader=reader,
            reconciler=reconciler,
            buckets=lambda partition: buckets_of(partition, partitions),
            toolsets=ToolsetLoader(reader, redis.toolsets, partitions),
            lease_ms=settings.lease_ms,
        )
        try:
            yield WorkerParts(
                handler_factory=lambda partition: RecoveryHandler(partition, deps),
                idle_interval_ms=IDLE_INTERVAL_MS,
                takeover_counter=redis.takeovers,
            )
        finally:
            await reader.close()


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
