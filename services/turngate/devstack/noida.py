"""The embedded broker: noida-db's Kafka protocol service, one binary from a wheel.

It keeps its log in memory and writes it to disk when it is stopped by SIGTERM: a restart keeps everything, a
SIGKILL loses what was not saved. Chaos on the broker itself therefore needs a real one
(scripts/real_kafka.py).
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
from collections.abc import Callable
from pathlib import Path

from turngate.devstack import ports, probe
from turngate.devstack.servers import ServerSpec
from turngate.schemas.errors import ConfigurationError

PACKAGE = "noida-db"


def product() -> str:
    """`noida-db <version>`. Raises ConfigurationError when the package is missing."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationError(
            "noida-db is not installed: install turngate[devstack], or set TURNGATE_KAFKA"
        ) from None


def kafka_spec(data: Path, log: Path, port: int) -> ServerSpec:
    """A single broker listening on `port`, its saved log below `data`."""
    return _spec("kafka", data, log, port, probe.kafka_ready)


def redis_spec(data: Path, log: Path, port: int) -> ServerSpec:
    """The Redis stand-in for platforms without a valkey wheel: a process of its own, so it restarts by
    itself.
    """
    return _spec("redis", data, log, port, probe.redis_ready)


def _spec(service: str, data: Path, log: Path, port: int, ready: Callable[[str, int], bool]) -> ServerSpec:
    argv = (str(_binary()), "start", "--only", service, f"--{service}-port", str(port))
    return ServerSpec(
        name=service,
        product=product(),
        argv=(*argv, "--data-dir", str(data), "--host", ports.LOOPBACK),
        port=port,
        data=data,
        log=log,
        ready=ready,
    )


def _binary() -> Path:
    product()
    binary = Path(str(importlib.resources.files("noida_db").joinpath("noida-db")))
    if not binary.is_file():
        raise ConfigurationError(f"noida-db is installed without its binary ({binary}): reinstall it")
    if not os.access(binary, os.X_OK):
        binary.chmod(0o755)  # wheels do not always keep the executable bit
    return binary
