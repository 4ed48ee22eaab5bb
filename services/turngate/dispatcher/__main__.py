"""`python -m turngate.dispatcher`, `turngate run dispatcher`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turngate.dispatcher.provider import HttpProvider, open_client
from turngate.dispatcher.relays import Relays
from turngate.dispatcher.service import ROLE, DispatcherDeps, DispatcherHandler
from turngate.dispatcher.store import LeaseStore
from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.redis.client import open_redis, server_replid
from turngate.runtime.redis.registry import register_instance
from turngate.runtime.redis.scripts import Scripts
from turngate.runtime.worker import SideProducer
from turngate.schemas.errors import Retryable

LEASE_ROLE = "relay"
REGISTER_AGAIN_SECONDS = 0.5


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What the dispatcher adds to the shared worker: the relays with their leases, and the client to the providers."""
    settings = context.settings
    sink = SideProducer(settings)
    async with open_redis(context) as redis, open_client() as client:
        await sink.start()
        boot = await _boot(context, redis.scripts)
        relays = Relays(
            provider=HttpProvider(client, lambda: context.clock.wall_ms() / 1000),
            sink=sink,
            leases=LeaseStore(
                Scripts(redis.redis, settings.topic_prefix, LEASE_ROLE), settings.instance_id, boot, settings.lease_ms
            ),
            clock=context.clock,
            metrics=context.metrics,
            log=context.log,
            owner=settings.instance_id,
            boot=boot,
            lease_ms=settings.lease_ms,
            renew_ms=settings.renew_ms,
            open_ms=round(settings.stream_open_seconds * 1000),
        )
        deps = DispatcherDeps(
            scripts=redis.scripts,
            toolsets=redis.toolsets,
            endpoints={endpoint.name: endpoint for endpoint in settings.endpoints},
            tenants=frozenset(settings.tenants),
            relays=relays,
            clock=context.clock,
            metrics=context.metrics,
            owner=settings.instance_id,
            boot=boot,
            lease_ms=settings.lease_ms,
            replid=await server_replid(redis.redis) or "unknown",
        )
        renewing = asyncio.create_task(relays.renew_forever())
        try:
            yield WorkerParts(
                handler_factory=lambda partition: DispatcherHandler(deps), takeover_counter=redis.takeovers
            )
        finally:
            await relays.drain(settings.drain_seconds)
            renewing.cancel()
            await sink.stop()


async def _boot(context: RoleContext, scripts: Scripts) -> int:
    """This process's boot number; waits for Redis."""
    while True:
        try:
            return await register_instance(
                scripts.redis, scripts.prefix, context.settings.instance_id, context.clock.wall_ms()
            )
        except Retryable as error:
            if context.stopping.is_set():
                raise
            context.log.warning("redis_not_ready", code=error.code)
            await asyncio.sleep(REGISTER_AGAIN_SECONDS)


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
