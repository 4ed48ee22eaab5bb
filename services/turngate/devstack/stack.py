"""The stack a developer, the demo and the tests run on: embedded servers, or those the environment names."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from turngate.devstack import noida, ports, probe, valkey
from turngate.devstack.base import ServerName, Stack
from turngate.devstack.errors import StackError
from turngate.devstack.external import ExternalStack
from turngate.devstack.servers import Server, ServerSpec
from turngate.schemas.errors import ConfigurationError

__all__ = ["EmbeddedStack", "ServerStack", "embedded_products", "open_stack"]

ROOT = Path(".turngate")
EARLIER_RUN_SECONDS = 8.0  # longer than the reaper's grace: servers of a killed parent are gone by then


class ServerStack(Stack):
    """A stack of two servers that this process starts itself. They die with it, even when it is killed."""

    def __init__(self, data: Path, kafka: ServerSpec, redis: ServerSpec, *, keeps_kafka_on_kill: bool) -> None:
        self.data = data
        self._servers: dict[ServerName, Server] = {"kafka": Server(kafka), "redis": Server(redis)}
        self._keeps_kafka_on_kill = keeps_kafka_on_kill
        self._mutex = threading.RLock()
        self._lock: IO[bytes] | None = None

    @property
    def kafka_bootstrap(self) -> str:
        return f"{ports.LOOPBACK}:{self._servers['kafka'].spec.port}"

    @property
    def redis_url(self) -> str:
        return f"redis://{ports.LOOPBACK}:{self._servers['redis'].spec.port}/0"

    @property
    def kafka_product(self) -> str:
        return self._servers["kafka"].spec.product

    @property
    def redis_product(self) -> str:
        return self._servers["redis"].spec.product

    @property
    def keeps_kafka_on_kill(self) -> bool:
        return self._keeps_kafka_on_kill

    def log(self, server: ServerName) -> Path:
        """The file with everything the server printed, over all its restarts."""
        return self._servers[server].spec.log

    def server(self, server: ServerName) -> Server:
        """The running server itself: its pid, and signals such as SIGSTOP."""
        return self._servers[server]

    def start_sync(self) -> None:
        with self._mutex:
            self._claim()
            try:
                for server in self._servers.values():
                    server.start()
            except BaseException:
                self.stop_sync()
                raise

    def stop_sync(self) -> None:
        with self._mutex:
            for server in self._servers.values():
                server.stop()
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def stop_server_sync(self, server: ServerName, *, graceful: bool = True, keep_data: bool = True) -> None:
        with self._mutex:
            self._servers[server].stop(graceful=graceful)
            if not keep_data:
                self._servers[server].wipe()

    def start_server_sync(self, server: ServerName) -> None:
        with self._mutex:
            self._servers[server].start()

    def _claim(self) -> None:
        if self._lock is not None:
            return
        self.data.mkdir(parents=True, exist_ok=True)
        lock = (self.data / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise StackError(f"another run uses {self.data}: stop it, or name another folder with --folder") from None
        self._lock = lock
        wanted = [server.spec.port for server in self._servers.values()]
        if not probe.wait_until(lambda: all(map(ports.is_free, wanted)), EARLIER_RUN_SECONDS):
            self.stop_sync()
            raise StackError(f"a port of {wanted} is taken by another program: delete {self.data / 'ports.json'}")


class EmbeddedStack(ServerStack):
    """noida-db as the broker and valkey as Redis, data, logs and chosen ports below one folder.

    `data` defaults to `.turngate/<name>` under the current directory. Ports are drawn once and kept in
    `ports.json`, so a later run on the same folder finds its clients' addresses unchanged.
    """

    def __init__(self, name: str = "dev", *, data: Path | None = None) -> None:
        folder = (data if data is not None else ROOT / name).absolute()
        kafka_port, redis_port = _kept_ports(folder)
        super().__init__(
            folder,
            noida.kafka_spec(folder / "kafka", folder / "logs" / "kafka.log", kafka_port),
            _redis_spec(folder, redis_port),
            keeps_kafka_on_kill=False,
        )


def open_stack(
    name: str = "dev", *, data: Path | None = None, environ: Mapping[str, str] = os.environ
) -> EmbeddedStack | ExternalStack:
    """The stack to run on, not yet started: external if TURNGATE_KAFKA and TURNGATE_REDIS are set, else
    embedded.

    TURNGATE_STACK_CONTROL, if set, names the control file through which an external stack restarts its
    servers. Raises ConfigurationError when only one of the two addresses is set.
    """
    kafka, redis = environ.get("TURNGATE_KAFKA"), environ.get("TURNGATE_REDIS")
    if bool(kafka) != bool(redis):
        missing = "TURNGATE_REDIS" if kafka else "TURNGATE_KAFKA"
        raise ConfigurationError(f"{missing} is not set: set both addresses for an external stack, or neither")
    if not kafka or not redis:
        return EmbeddedStack(name, data=data)
    control = environ.get("TURNGATE_STACK_CONTROL")
    return ExternalStack(
        kafka,
        redis,
        kafka_product=environ.get("TURNGATE_BROKER_NAME") or "external broker",
        control_file=Path(control) if control else None,
    )


def embedded_products() -> tuple[str, str]:
    """Names and versions of the embedded broker and Redis; starts nothing. Raises ConfigurationError."""
    broker = noida.product()
    return broker, valkey.product() if valkey.binary() is not None else f"{broker} (redis)"


def _redis_spec(folder: Path, port: int) -> ServerSpec:
    data, log = folder / "redis", folder / "logs" / "redis.log"
    server = valkey.binary()
    if server is None:
        return noida.redis_spec(data, log, port)
    return valkey.redis_spec(server, valkey.product(), data, log, port)


def _kept_ports(folder: Path) -> tuple[int, int]:
    kept = folder / "ports.json"
    try:
        stored = json.loads(kept.read_bytes())
        return int(stored["kafka"]), int(stored["redis"])
    except (OSError, ValueError, KeyError, TypeError):
        kafka, redis = ports.free_ports(2)
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"kafka": kafka, "redis": redis}) + "\n")
        return kafka, redis
