"""Runs named programs (the roles, a simulator) as child processes: start, kill, restart, wait until ready,
stop all.

The caller gives each program its stable instance id and port through `env`; a restart uses the same ones.
Children end with this process, however it ends (see children.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from turngate.devstack.children import Child
from turngate.devstack.errors import StackError
from turngate.devstack.probe import http_ready

POLL_SECONDS = 0.05
READY_SECONDS = 60.0
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How a program that ends by itself is started again: at most `limit` times, each after
    `delay_seconds`."""

    limit: int = 10
    delay_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A program to run. `env` is added to this process's; output is appended to `log`.

    It is ready when `ready_url` (plain http) answers 200 and `ready` says True; with neither, as soon as it
    runs. Without `restart` it stays down once it ended.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    ready_url: str | None = None
    ready: Callable[[], bool] | None = None
    restart: RestartPolicy | None = None


@dataclass(slots=True)
class _Program:
    spec: ProcessSpec
    child: Child
    wanted: bool = True
    starts: int = 1
    restarts: int = 0


class Supervisor:
    """An async context manager over its programs; leaving it stops all of them.

    Programs are named; an unknown or doubled name raises StackError.
    """

    def __init__(self) -> None:
        self._programs: dict[str, _Program] = {}
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._watch_exits(), name="supervisor-watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await self.stop_all()

    @property
    def names(self) -> tuple[str, ...]:
        """The programs ever started here, in that order, running or not."""
        return tuple(self._programs)

    def start(self, spec: ProcessSpec) -> None:
        """Start a program without waiting for it to be ready. Raises StackError when the name already
        runs."""
        if spec.name in self._programs and self.running(spec.name):
            raise StackError(f"{spec.name} already runs")
        self._programs[spec.name] = _Program(spec, _launch(spec))

    def pid(self, name: str) -> int:
        """The process id of its newest start."""
        return self._program(name).child.pid

    def running(self, name: str) -> bool:
        return self._program(name).child.poll() is None

    def exit_code(self, name: str) -> int | None:
        """Of its newest start: None while it runs, negative for the signal that ended it."""
        return self._program(name).child.poll()

    def starts(self, name: str) -> int:
        """How often it was started, the first time included."""
        return self._program(name).starts

    def send(self, name: str, number: int) -> None:
        """Send a signal to the program's whole process group, e.g. SIGSTOP; restart policies stay as they
        are.
        """
        self._program(name).child.signal(number)

    async def kill(self, name: str, number: int = signal.SIGKILL, *, timeout_seconds: float = STOP_SECONDS) -> int:
        """Send a signal that ends the program, wait for that, give its exit code. It stays down until
        `restart`.

        Raises StackError when it still runs after `timeout_seconds`.
        """
        program = self._program(name)
        program.wanted = False
        program.child.signal(number)
        return await self.wait_exit(name, timeout_seconds=timeout_seconds)

    async def restart(self, name: str, *, graceful: bool = True, timeout_seconds: float = STOP_SECONDS) -> None:
        """Start it again with the same argv and environment, ending it first if it runs."""
        program = self._program(name)
        program.wanted = False
        await asyncio.to_thread(program.child.end, timeout_seconds, graceful=graceful)
        program.child = _launch(program.spec)
        program.starts += 1
        program.wanted = True

    async def wait_exit(self, name: str, *, timeout_seconds: float) -> int:
        """Wait until it ended, give its exit code. Raises StackError after `timeout_seconds`."""
        child = self._program(name).child
        code = await asyncio.to_thread(child.wait, timeout_seconds)
        if code is None:
            raise child.failure(f"still runs after {timeout_seconds:g} s")
        return code

    async def wait_ready(self, *names: str, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until the named programs (all, if none is named) are ready.

        Raises StackError, with the log's tail, for the first that ended without a restart policy or took too long.
        """
        failed: StackError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for name in names or self.names:
                    group.create_task(self._wait_one(name, timeout_seconds))
        except* StackError as errors:
            failed = next(error for error in errors.exceptions if isinstance(error, StackError))
        if failed is not None:
            raise failed

    async def stop_all(self, timeout_seconds: float = STOP_SECONDS) -> dict[str, int]:
        """SIGTERM to all at once, SIGKILL to those left after `timeout_seconds`. Gives every exit code by
        name.
        """
        for program in self._programs.values():
            program.wanted = False
            program.child.signal(signal.SIGTERM)
            program.child.signal(signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._all_ended()
        return {
            name: await asyncio.to_thread(program.child.end, 0.0, graceful=False)
            for name, program in self._programs.items()
        }

    async def _all_ended(self) -> None:
        while True:
            if all(program.child.poll() is not None for program in self._programs.values()):
                return
            await asyncio.sleep(POLL_SECONDS)

    def _program(self, name: str) -> _Program:
        try:
            return self._programs[name]
        except KeyError:
            raise StackError(f"no program named {name}; there are: {', '.join(self.names) or 'none'}") from None

    async def _wait_one(self, name: str, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    if await self._ready(self._program(name)):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise self._program(name).child.failure(f"not ready within {timeout_seconds:g} s") from None

    async def _ready(self, program: _Program) -> bool:
        spec = program.spec
        if program.child.poll() is not None:
            if not program.wanted or spec.restart is None or program.restarts >= spec.restart.limit:
                raise program.child.failure("ended before it was ready")
            return False
        if spec.ready_url is not None and not await asyncio.to_thread(http_ready, spec.ready_url):
            return False
        return spec.ready is None or await asyncio.to_thread(spec.ready)

    async def _watch_exits(self) -> None:
        while True:
            for program in tuple(self._programs.values()):
                policy = program.spec.restart
                if policy is None or not program.wanted or program.child.poll() is None:
                    continue
                if program.restarts < policy.limit:
                    await asyncio.sleep(policy.delay_seconds)
                    self._start_again(program)
            await asyncio.sleep(POLL_SECONDS)

    @staticmethod
    def _start_again(program: _Program) -> None:
        # It may have been killed or restarted by the caller during the delay.
        if program.wanted and program.child.poll() is not None:
            program.child = _launch(program.spec)
            program.starts += 1
            program.restarts += 1


def role_argv(role: str) -> tuple[str, ...]:
    """The command line of `turngate run <role>` in this interpreter."""
    return (sys.executable, "-m", "turngate.cli.main", "run", role)


def _launch(spec: ProcessSpec) -> Child:
    return Child.start(spec.name, spec.argv, log=spec.log, env=spec.env, cwd=spec.cwd)
