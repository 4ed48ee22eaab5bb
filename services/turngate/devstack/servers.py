"""One server of the stack: how to start it, when it is ready, where its data and log lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turngate.devstack import ports, probe
from turngate.devstack.children import Child

STOP_SECONDS = 10.0
PORT_RELEASE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What a server is. `argv` listens on 127.0.0.1:`port` and writes only below `data`; `product` names its
    version.
    """

    name: str
    product: str
    argv: tuple[str, ...]
    port: int
    data: Path
    log: Path
    ready: Callable[[str, int], bool]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    ready_timeout_seconds: float = 30.0
    prepare: Callable[[], None] | None = None


class Server:
    """A server that can be started, stopped and started again on the same port and data."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._child.pid if self.running and self._child is not None else None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start and wait until it answers its own protocol. Raises StackError with the log's tail; then
        nothing runs.
        """
        if self.running:
            return
        spec = self.spec
        spec.data.mkdir(parents=True, exist_ok=True)
        if spec.prepare is not None:
            spec.prepare()
        child = self._child = Child.start(spec.name, spec.argv, log=spec.log, env=spec.env)

        def settled() -> bool:
            return child.poll() is not None or spec.ready(ports.LOOPBACK, spec.port)

        if not probe.wait_until(settled, spec.ready_timeout_seconds) or child.poll() is not None:
            error = child.failure(f"not ready on port {spec.port} within {spec.ready_timeout_seconds:g} s")
            self.stop(graceful=False)
            raise error

    def stop(self, *, graceful: bool = True) -> None:
        """SIGTERM and wait (SIGKILL unless `graceful`); returns when the process is gone and its port is
        free.
        """
        if self._child is None:
            return
        self._child.end(STOP_SECONDS, graceful=graceful)
        self._child = None
        probe.wait_until(lambda: ports.is_free(self.spec.port), PORT_RELEASE_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal, e.g. SIGSTOP and SIGCONT, to let it hang for a while."""
        if self._child is not None:
            self._child.signal(number)

    def wipe(self) -> None:
        """Delete its data. Only while it is stopped."""
        assert not self.running, "a running server's data must not be deleted"
        shutil.rmtree(self.spec.data, ignore_errors=True)
