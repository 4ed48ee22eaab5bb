"""`python -m turngate.ledger`, `turngate run ledger`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turngate.ledger.service import LedgerDeps, LedgerHandler
from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.redis.client import open_redis
from turngate.schemas.tools import ReplyTo
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS

ROLE = "ledger"


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What the ledger adds to the shared worker."""
    settings = context.settings
    results = TOPICS["tool-results"].full_name(settings.topic_prefix)
    async with open_redis(context) as redis:
        deps = LedgerDeps(
            scripts=redis.scripts,
            toolsets=redis.toolsets,
            tenants=frozenset(settings.tenants),
            clock=context.clock,
            metrics=context.metrics,
            reply_to=lambda key: ReplyTo(topic=results, partition=partition_of(key, settings.partitions)),
        )
        yield WorkerParts(handler_factory=lambda partition: LedgerHandler(deps), takeover_counter=redis.takeovers)


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
