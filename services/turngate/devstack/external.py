"""A stack that somebody else runs: addresses from the environment, restarts only through a control file."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

from turngate.devstack import probe
from turngate.devstack.base import ServerName, Stack
from turngate.devstack.errors import StackControlUnavailable, StackError
from turngate.devstack.ports import LOOPBACK

READY_SECONDS = 60.0
CONTROL_SECONDS = 120.0


class ExternalStack(Stack):
    """`kafka` is `host:port[,host:port...]`, `redis` a redis:// url. `stop` leaves the servers alone: they
    are not ours.
    """

    def __init__(self, kafka: str, redis: str, *, kafka_product: str, control_file: Path | None = None) -> None:
        self._kafka = kafka
        self._redis = redis
        self._kafka_product = kafka_product
        self._control_file = control_file

    @property
    def kafka_bootstrap(self) -> str:
        return self._kafka

    @property
    def redis_url(self) -> str:
        return self._redis

    @property
    def kafka_product(self) -> str:
        return self._kafka_product

    @property
    def redis_product(self) -> str:
        try:
            return probe.redis_version(*self._redis_address())
        except OSError:
            return "external redis"

    @property
    def keeps_kafka_on_kill(self) -> bool:
        return True

    def start_sync(self) -> None:
        """Wait until the first broker and Redis answer."""
        host, _, port = self._kafka.split(",")[0].rpartition(":")
        if not probe.wait_until(lambda: probe.kafka_answers(host, int(port)), READY_SECONDS):
            raise StackError(f"no Kafka broker answers at {self._kafka} (TURNGATE_KAFKA)")
        redis_host, redis_port = self._redis_address()
        if not probe.wait_until(lambda: probe.redis_answers(redis_host, redis_port), READY_SECONDS):
            raise StackError(f"no Redis answers at {redis_host}:{redis_port} (TURNGATE_REDIS)")

    def stop_sync(self) -> None:
        return

    def stop_server_sync(self, server: ServerName, *, graceful: bool = True, keep_data: bool = True) -> None:
        self._control("stop", server, graceful=graceful, keep_data=keep_data)

    def start_server_sync(self, server: ServerName) -> None:
        self._control("start", server)

    def controllable(self) -> bool:
        """Whether somebody answers for the control file and accepts its token."""
        try:
            self._control("ping", None)
        except StackError:
            return False
        return True

    def shutdown_sync(self) -> None:
        """Ask the process behind the control file to stop its servers and end."""
        self._control("shutdown", None)

    def _control(
        self, action: str, server: ServerName | None, *, graceful: bool = True, keep_data: bool = True
    ) -> None:
        if self._control_file is None:
            raise StackControlUnavailable(
                f"cannot {action} {server}: this stack is external and TURNGATE_STACK_CONTROL is not set"
            )
        try:
            address = json.loads(self._control_file.read_bytes())
            request = {"token": address["token"], "action": action, "server": server}
            request |= {"graceful": graceful, "keepData": keep_data}
            with socket.create_connection((LOOPBACK, int(address["port"])), CONTROL_SECONDS) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as replies:
                    error = json.loads(replies.readline())["error"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise StackControlUnavailable(
                f"cannot {action} {server}: nobody answers for control file {self._control_file}"
                f" ({type(problem).__name__})"
            ) from problem
        if error is not None:
            raise StackError(str(error))

    def _redis_address(self) -> tuple[str, int]:
        parts = urlsplit(self._redis)
        return parts.hostname or LOOPBACK, parts.port or 6379
