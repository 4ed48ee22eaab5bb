"""Readiness of servers, asked over their own protocols with plain sockets: no client library, no loop."""

from __future__ import annotations

import http.client
import socket
import struct
import time
from collections.abc import Callable
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 1.0
POLL_SECONDS = 0.01
# (api key, version): old versions that Kafka 4 and the embedded broker both still answer.
_METADATA = (3, 1)
_FIND_COORDINATOR = (10, 1)


def wait_until(condition: Callable[[], bool], timeout_seconds: float, *, poll_seconds: float = POLL_SECONDS) -> bool:
    """Ask `condition` again and again until it holds (True) or `timeout_seconds` passed (False)."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_seconds)
    return True


def kafka_ready(host: str, port: int) -> bool:
    """Whether a broker answers a metadata call with itself in the list of live brokers."""
    try:
        return port in kafka_broker_ports(host, port)
    except (OSError, struct.error):
        return False


def kafka_answers(host: str, port: int) -> bool:
    """Whether a broker answers a metadata call, whatever addresses it advertises (behind a port mapping)."""
    try:
        return bool(kafka_broker_ports(host, port))
    except (OSError, struct.error):
        return False


def kafka_coordinators_ready(host: str, port: int) -> bool:
    """Whether a broker serves groups and transactions too.

    A fresh cluster creates the topics behind them at the first call and refuses the calls until they are
    there.
    """
    try:
        return kafka_ready(host, port) and all(_coordinator_error(host, port, kind) == 0 for kind in (0, 1))
    except (OSError, struct.error):
        return False


def kafka_broker_ports(host: str, port: int) -> tuple[int, ...]:
    """The advertised ports of the cluster's live brokers. Raises OSError or struct.error when the answer is
    none.
    """
    answer = _kafka_call(host, port, _METADATA, struct.pack(">i", 0))
    (brokers,) = struct.unpack_from(">i", answer, 4)
    at = 8
    ports: list[int] = []
    for _ in range(brokers):
        (host_size,) = struct.unpack_from(">h", answer, at + 4)
        at += 6 + host_size
        broker_port, rack_size = struct.unpack_from(">ih", answer, at)
        ports.append(broker_port)
        at += 6 + max(0, rack_size)
    return tuple(ports)


def redis_ready(host: str, port: int) -> bool:
    """Whether a server answers PING with PONG; one that still loads its data does not."""
    try:
        return redis_command(host, port, "PING") == b"+PONG\r\n"
    except OSError:
        return False


def redis_answers(host: str, port: int) -> bool:
    """Like redis_ready, but a server that asks for a password counts as one that answers."""
    try:
        return redis_command(host, port, "PING")[:7] in (b"+PONG\r\n", b"-NOAUTH")
    except OSError:
        return False


def redis_version(host: str, port: int) -> str:
    """`valkey 9.1.2` or `redis 7.0.15`, from INFO server, or `redis` alone. Raises OSError."""
    fields: dict[str, str] = {}
    for line in redis_command(host, port, "INFO", "server").decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    for product in ("valkey", "redis"):
        if version := fields.get(f"{product}_version"):
            return f"{product} {version}"
    return "redis"


def redis_command(host: str, port: int, *words: str) -> bytes:
    """One command, its raw RESP reply (simple strings, errors and bulk strings). Raises OSError."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.sendall(request.encode())
        reply = connection.makefile("rb")
        with reply:
            line = reply.readline()
            return reply.read(int(line[1:])) if line[:1] == b"$" and line[1:2] != b"-" else line


def http_ready(url: str) -> bool:
    """Whether a GET of a plain http `url` answers 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _coordinator_error(host: str, port: int, kind: int) -> int:
    """The error code of looking up the coordinator of a group (kind 0) or transactional id (kind 1); 0 is
    none."""
    key = b"turngate-probe"
    body = struct.pack(">h", len(key)) + key + struct.pack(">b", kind)
    error: int = struct.unpack_from(">h", _kafka_call(host, port, _FIND_COORDINATOR, body), 8)[0]
    return error


def _kafka_call(host: str, port: int, api: tuple[int, int], body: bytes) -> bytes:
    """One request; the answer with its correlation id in front."""
    client = b"turngate-probe"
    request = struct.pack(">hhih", *api, 1, len(client)) + client + body
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        data += part
    return data
