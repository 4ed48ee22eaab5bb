"""HTTP of a process: /livez, /readyz, /metrics, and whatever routes a role adds."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from turngate.runtime.metrics import Metrics
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError

STALL_SECONDS = 10.0
BEAT_SECONDS = 0.5
STOP_SECONDS = 3.0


class LoopWatch:
    """Beats on the event loop and watches the beat from a thread: a blocked loop cannot report itself."""

    def __init__(self, stall_seconds: float = STALL_SECONDS) -> None:
        self._stall_seconds = stall_seconds
        self._beat = time.monotonic()
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self.stalls = 0

    @property
    def alive(self) -> bool:
        """Whether the loop has turned lately."""
        return time.monotonic() - self._beat < self._stall_seconds

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_beating())
        threading.Thread(target=self._watch, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        self._over.set()
        if self._task is not None:
            self._task.cancel()

    async def _keep_beating(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)

    def _watch(self) -> None:
        reported = False
        while not self._over.wait(BEAT_SECONDS):
            stalled = not self.alive
            if stalled and not reported:
                self.stalls += 1
                # All stacks, so that what blocks the loop is in the log before the liveness probe kills us.
                faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
            reported = stalled


class _Server(uvicorn.Server):
    """A server inside of a process that handles its signals itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def serve_http(
    settings: Settings,
    metrics: Metrics,
    *,
    ready: Callable[[], bool],
    routes: Sequence[BaseRoute] = (),
    stall_seconds: float = STALL_SECONDS,
) -> AsyncGenerator[int]:
    """Serves while the context is open and gives the port. Writes it to TURNGATE_HTTP_PORT_FILE if that is set.

    Raises ConfigurationError where the port cannot be had.
    """
    watch = LoopWatch(stall_seconds)
    listener = _bind(settings.bind_host, settings.http_port)
    port = int(listener.getsockname()[1])
    app = Starlette(routes=[*_health_routes(metrics, ready, watch), *routes])
    server = _Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    watch.start()
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn tells by an attribute, no event
            await asyncio.sleep(0.01)
        if settings.http_port_file is not None:
            _write_port(settings.http_port_file, port)
        yield port
    finally:
        server.should_exit = True
        watch.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await serving
        listener.close()


def _health_routes(metrics: Metrics, ready: Callable[[], bool], watch: LoopWatch) -> list[Route]:
    async def livez(request: Request) -> Response:
        return _status(watch.alive)

    async def readyz(request: Request) -> Response:
        return _status(ready())

    async def scrape(request: Request) -> Response:
        return PlainTextResponse(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", scrape)]


def _status(good: bool) -> Response:
    return JSONResponse({"ok": good}, status_code=200 if good else 503)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({error.strerror}): set TURNGATE_HTTP_PORT to a free port, 0 for any, and "
            "TURNGATE_HTTP_HOST to an address of this machine"
        ) from error
    return listener


def _write_port(file: Path, port: int) -> None:
    """In one step, so that a reader finds the whole number or no file."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(f"{port}\n", encoding="ascii")
        draft.replace(file)
    except OSError as error:
        raise ConfigurationError(f"TURNGATE_HTTP_PORT_FILE cannot be written ({error.strerror})") from error
