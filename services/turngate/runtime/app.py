"""From settings to exit code: what every role's `__main__` shares.

Exit codes: 0 stopped as asked · 70 a fault of the program · 75 the world was not ready · 78 something to set.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from turngate.runtime.clock import Clock, SystemClock
from turngate.runtime.handlers import PartitionHandler
from turngate.runtime.health import serve_http
from turngate.runtime.logging import Log, configure_logging
from turngate.runtime.metrics import Metrics
from turngate.runtime.producer import hurry_between_transactions
from turngate.runtime.settings import Settings, load_settings, strangers
from turngate.runtime.takeovers import TakeoverCounter
from turngate.runtime.worker import Worker
from turngate.schemas.errors import ConfigurationError, Retryable
from turngate.topology.groups import ROLES

COLLECT_AFTER = (50_000, 20, 20)
"""Allocations, and collections of the younger generation, after which the garbage collector looks at each generation.
A worker makes thousands of objects a batch and keeps most of them for as long as a stream is open: by Python's own
thresholds looking at them took a fifth of a reassembler's time."""

EXIT_OK = 0
EXIT_FAULT = 70
EXIT_NOT_READY = 75
EXIT_CONFIGURATION = 78


def _not_ready() -> bool:
    return False


def _always() -> bool:
    return True


@dataclass(slots=True)
class RoleContext:
    """What a running role is given. `stopping` is set by SIGTERM and SIGINT.

    ready: the role's to replace; a worker role is ready when this and its worker are.
    """

    name: str
    settings: Settings
    clock: Clock
    metrics: Metrics
    log: Log
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ready: Callable[[], bool] = _not_ready


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What a role adds to the shared worker. routes: served beside the health endpoints."""

    handler_factory: Callable[[int], PartitionHandler]
    idle_interval_ms: int | None = None
    takeover_counter: TakeoverCounter | None = None
    routes: Sequence[BaseRoute] = ()


PartsBuilder = Callable[[RoleContext], AbstractAsyncContextManager[WorkerParts]]
"""Opens what the role's handlers share (Redis, scripts, side producers) and closes it after the worker ended."""


async def run_role(
    name: str,
    body: Callable[[RoleContext], Awaitable[None]],
    *,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> int:
    """Runs `body` until it returns and gives the exit code. `body` serves HTTP itself (`serve_http`).

    Never raises what an operator must act on: that becomes a line on stderr and an exit code.
    """
    try:
        settings = settings if settings is not None else load_settings()
    except ConfigurationError as error:
        return _complain(name, error)
    log = configure_logging(role=name, instance=settings.instance_id, level=settings.log_level)
    for unknown in strangers(os.environ):
        log.warning("unknown_variable", variable=unknown)
    context = RoleContext(name, settings, clock if clock is not None else SystemClock(), Metrics(), log)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, context.stopping.set)
    log.info("role_started", pid=os.getpid(), environment=settings.environment)
    try:
        await body(context)
    except ConfigurationError as error:
        return _complain(name, error)
    except Retryable as error:
        log.error("role_not_ready", code=error.code, text=str(error))
        return EXIT_NOT_READY
    except Exception as error:
        log.error("role_failed", error=type(error).__name__, at=_where(error))
        return EXIT_FAULT
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    log.info("role_ended")
    return EXIT_OK


async def run_worker(name: str, build: PartsBuilder, *, settings: Settings | None = None) -> int:
    """Runs the worker role `name` until SIGTERM or SIGINT; gives the exit code."""

    async def body(context: RoleContext) -> None:
        context.ready = _always
        async with AsyncExitStack() as stack:
            parts = await stack.enter_async_context(build(context))
            worker = Worker(
                settings=context.settings, role=ROLES[name], handler_factory=parts.handler_factory,
                clock=context.clock, metrics=context.metrics, idle_interval_ms=parts.idle_interval_ms,
                takeover_counter=parts.takeover_counter, log=context.log,
            )  # fmt: skip
            await stack.enter_async_context(
                serve_http(
                    context.settings,
                    context.metrics,
                    ready=lambda: worker.ready and context.ready(),
                    routes=parts.routes,
                )
            )
            watching = asyncio.create_task(_pass_on(context.stopping, worker))
            try:
                await worker.run()
            finally:
                watching.cancel()

    return await run_role(name, body, settings=settings)


def run_worker_role(name: str, build: PartsBuilder) -> int:
    """`sys.exit(run_worker_role("ledger", parts))` is a role's whole main."""
    gc.freeze()  # what the imports have made stays for good
    gc.set_threshold(*COLLECT_AFTER)
    hurry_between_transactions()
    return asyncio.run(run_worker(name, build))


async def _pass_on(stopping: asyncio.Event, worker: Worker) -> None:
    await stopping.wait()
    worker.request_stop()


def _complain(name: str, error: ConfigurationError) -> int:
    for line in str(error).splitlines():
        sys.stderr.write(f"turngate {name}: {line}\n")
    return EXIT_CONFIGURATION


def _where(error: BaseException) -> str:
    """The innermost place of an error: file, line, function; no values."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return "unknown"
    code = place.tb_frame.f_code
    return f"{code.co_filename}:{place.tb_lineno} {code.co_name}"
