"""`python -m turngate.edge`, `turngate run edge`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from turngate.edge.answers import Caller
from turngate.edge.api import Api
from turngate.edge.auth import read_tokens
from turngate.edge.replay import ReplayLimits, ReplayStore
from turngate.edge.service import ProjectorDeps, ProjectorHandler
from turngate.edge.stream import EventStreams
from turngate.edge.tail import Hub
from turngate.runtime.app import RoleContext, WorkerParts, run_worker_role
from turngate.runtime.producer import SideProducer
from turngate.runtime.redis.client import open_redis

ROLE = "edge"


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    """What the edge adds to the shared worker: the projector, the HTTP API, and the live streams of its clients."""
    settings = context.settings
    caller = Caller(settings, read_tokens(settings))
    limits = ReplayLimits(
        events_max=settings.edge_replay_events_max,
        bytes_max=settings.edge_replay_bytes_max,
        lifetime_ms=int(settings.edge_replay_seconds * 1000),
    )
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(open_redis(context))
        producer = SideProducer(settings)
        await producer.start()
        stack.push_async_callback(producer.stop)
        store = ReplayStore(redis.scripts, limits)
        hub = Hub(store, streams_max=settings.edge_streams_max, check_seconds=settings.edge_heartbeat_seconds)
        poller = asyncio.create_task(hub.run(lambda: context.clock.boot_ms() / 1000))
        stack.push_async_callback(_end, hub, poller, asyncio.create_task(_close(context.stopping, hub)))
        context.ready = lambda: not poller.done()
        streams = EventStreams(caller, store, hub, settings.edge_heartbeat_seconds)
        yield WorkerParts(
            handler_factory=lambda partition: ProjectorHandler(ProjectorDeps(store, frozenset(settings.tenants))),
            takeover_counter=redis.takeovers,
            routes=(*Api(caller, producer).routes(), *streams.routes()),
        )


async def _close(stopping: asyncio.Event, hub: Hub) -> None:
    """Clients are sent to other instances at once; the partitions are handed over meanwhile."""
    await stopping.wait()
    hub.close()


async def _end(hub: Hub, poller: asyncio.Task[None], closing: asyncio.Task[None]) -> None:
    """The poller is not cancelled: it ends by itself, and a Redis client in the middle of a read is left in order."""
    closing.cancel()
    hub.close()
    await poller


def main() -> int:
    """Runs the role; returns its exit code."""
    return run_worker_role(ROLE, parts)


if __name__ == "__main__":
    sys.exit(main())
