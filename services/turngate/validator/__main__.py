"""`python -m turngate.validator`, `turngate run validator`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.redis.client import open_redis
from turngate.validator.service import ROLE, ValidatorDeps, ValidatorHandler


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What the validator adds to the shared worker."""
    async with open_redis(context) as redis:
        deps = ValidatorDeps(
            scripts=redis.scripts,
            toolsets=redis.toolsets,
            endpoints={endpoint.name: endpoint for endpoint in context.settings.endpoints},
            tenants=frozenset(context.settings.tenants),
            clock=context.clock,
            metrics=context.metrics,
        )
        yield WorkerParts(handler_factory=lambda partition: ValidatorHandler(deps), takeover_counter=redis.takeovers)


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
