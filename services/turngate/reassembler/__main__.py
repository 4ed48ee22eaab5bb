"""`python -m turngate.reassembler`, `turngate run reassembler`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turngate.domain.dispatch.retry import RetryPolicy
from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.redis.client import open_redis

ROLE = "reassembler"


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What the reassembler adds to the shared worker."""
    settings = context.settings
    policy = RetryPolicy(
        base_ms=settings.retry_base_ms,
        ceiling_ms=settings.retry_ceiling_ms,
        retries_max=settings.retries_max,
        retry_blocked=settings.retry_blocked,
    )
    async with open_redis(context) as redis:
        deps = ReassemblerDeps(scripts=redis.scripts, toolsets=redis.toolsets, metrics=context.metrics, policy=policy)
        yield WorkerParts(handler_factory=lambda partition: ReassemblerHandler(deps), takeover_counter=redis.takeovers)


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
