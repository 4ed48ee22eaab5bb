"""Free TCP ports on loopback that stay free while a server restarts.

Ports handed out by bind(0) lie in the range from which the kernel also serves outgoing connections, so a port
can be taken in the second between a server's stop and its start. These are drawn from below every common
ephemeral range (Linux 32768-60999, macOS and BSD 49152-65535).
"""

from __future__ import annotations

import random
import socket

from turngate.devstack.errors import StackError

LOOPBACK = "127.0.0.1"
PORT_MIN = 15_000
PORT_MAX = 31_999
TRIES_MAX = 200


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `port` now. Connections in TIME_WAIT do not count as taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_ports(count: int, *, rng: random.Random | None = None) -> tuple[int, ...]:
    """`count` different ports nobody listens on. Raises StackError when `TRIES_MAX` draws found too few."""
    source = rng if rng is not None else random.SystemRandom()
    found: list[int] = []
    for _ in range(TRIES_MAX):
        if len(found) == count:
            break
        port = source.randint(PORT_MIN, PORT_MAX)
        if port not in found and is_free(port):
            found.append(port)
    if len(found) < count:
        raise StackError(f"found only {len(found)} of {count} free ports between {PORT_MIN} and {PORT_MAX}")
    return tuple(found)
