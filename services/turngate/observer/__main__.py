"""`python -m turngate.observer`, `turngate run observer`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from turngate.observer.api import routes
from turngate.observer.service import Observer
from turngate.observer.transport import ROLE
from turngate.runtime.app import RoleContext, run_role
from turngate.runtime.errors import BrokerNotReady
from turngate.runtime.health import serve_http
from turngate.runtime.offsets import GroupOffsets
from turngate.runtime.settings import Settings
from turngate.topology.desired import group_inputs


async def observe(context: RoleContext) -> None:
    """Counts until SIGTERM, or until Faust gives up: then raises BrokerNotReady or what stopped it.

    Raises MissingOffset and BrokerNotReady before anything is started.
    """
    await _check_offsets(context.settings)
    with tempfile.TemporaryDirectory(prefix="turngate-observer-", ignore_cleanup_errors=True) as folder:
        await _observe(context, Path(folder))


async def _observe(context: RoleContext, folder: Path) -> None:
    settings = context.settings
    observer = Observer(settings, context.clock, context.metrics, folder)
    app = observer.app
    async with serve_http(settings, context.metrics, ready=lambda: observer.ready, routes=routes(observer, settings)):
        starting = asyncio.create_task(app.start())
        asked = asyncio.create_task(context.stopping.wait())
        ended = asyncio.create_task(app.wait_until_stopped())
        try:
            await asyncio.wait({starting, asked, ended}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.exception() is None:
                await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Asked or not, the group is left in order, so that another instance need not wait for the session's end.
            with suppress(TimeoutError):
                async with asyncio.timeout(settings.drain_seconds):
                    await app.stop()
            for task in (starting, asked, ended):
                task.cancel()
            failed = await asyncio.gather(starting, return_exceptions=True)
    if context.stopping.is_set():
        return
    _raise(app.crash_reason or failed[0])


async def _check_offsets(settings: Settings) -> None:
    """What no offset was committed for is not read: `topology apply` commits the first ones."""
    offsets = GroupOffsets(settings, ROLE.group(settings.topic_prefix))
    await offsets.start()
    try:
        names = group_inputs(ROLE, settings.topic_prefix)
        await offsets.read(TopicPartition(name, number) for name in names for number in range(settings.partitions))
    finally:
        await offsets.stop()


def _raise(reason: object) -> None:
    if isinstance(reason, KafkaError | OSError):
        raise BrokerNotReady(f"the broker went away ({type(reason).__name__})") from reason
    if isinstance(reason, BaseException):
        raise reason
    raise RuntimeError("the stream processor stopped by itself")


def main() -> int:
    """Runs the role; returns its exit code."""
    return asyncio.run(run_role(ROLE.name, observe))


if __name__ == "__main__":
    sys.exit(main())
