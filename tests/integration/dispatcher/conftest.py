"""A server made of bytes, on loopback: what it receives is kept, what it answers is written as it stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import pytest

from turngate.dispatcher.provider import HttpLimits, HttpProvider, open_client
from turngate.dispatcher.relays import Ended, Relay
from turngate.runtime.endpoints import Endpoint

WAIT_SECONDS = 30.0
Answer = Callable[["Wire", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it stood on the wire. headers: names in lower case, repeated ones joined."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Wire:
    """The server. release: lets an answer that waits go on."""

    answer: Answer
    requests: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    closed_by_peer: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after the other."""
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
                line, *rows = head.removesuffix("\r\n\r\n").split("\r\n")
                headers: dict[str, str] = {}
                for row in rows:
                    name, _, value = row.partition(": ")
                    headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.requests.append(Received(line, headers, body))
                await self.answer(self, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed_by_peer.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def answering(*parts: bytes, pause: bool = False, close: bool = True) -> Answer:
    """Writes the parts; where it pauses, the last waits for `release`; closes the connection after them."""

    async def answer(wire: Wire, writer: asyncio.StreamWriter) -> None:
        for number, part in enumerate(parts):
            if pause and number == len(parts) - 1:
                await wire.release.wait()
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return answer


@dataclass
class Lab:
    """A provider client and the servers it speaks to."""

    limits: HttpLimits = field(default_factory=HttpLimits)

    @contextlib.asynccontextmanager
    async def wire(self, answer: Answer) -> AsyncIterator[Wire]:
        wire = Wire(answer)
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.create_task(wire.serve(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        wire.port = server.sockets[0].getsockname()[1]
        async with server:
            yield wire
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def relay(self, port: int, **changes: object) -> Relay:
        endpoint = {"name": "local", "api": "openai-chat", "profile": "openai"}
        endpoint |= {"base_url": f"http://127.0.0.1:{port}", **changes.pop("endpoint", {})}  # type: ignore[dict-item]
        values: dict[str, object] = {
            "tenant": "acme", "conversation": "c", "operation_id": "op-1", "generation": 1, "relay": 1,
            "endpoint": Endpoint.model_validate(endpoint), "manifest_digest": "0" * 64, "profile": "openai",
            "normaliser": "openai@1", "method": "POST", "path": "/v1/chat/completions", "headers": {},
            "body": b'{"stream":true}', "idempotency_key": "k", "lease_until_boot_ms": 0,
        }  # fmt: skip
        return Relay(**(values | changes))  # type: ignore[arg-type]

    async def ask(self, *relays: Relay) -> list[tuple[list[str], Ended]]:
        """Events and end of each, one after the other over one client."""
        found = []
        async with open_client(self.limits) as client:
            provider = HttpProvider(client, lambda: 0.0, self.limits)
            for relay in relays:
                async with asyncio.timeout(WAIT_SECONDS):
                    stream = await provider.open(relay, lambda: True)
                    events: list[str] = []
                    while (batch := await stream.batch()) is not None:
                        events += batch
                    await stream.close()
                    found.append((events, stream.ended()))
        return found

    async def one(self, answer: Answer, **changes: object) -> tuple[list[str], Ended, Wire]:
        async with self.wire(answer) as wire:
            events, end = (await self.ask(self.relay(wire.port, **changes)))[0]
            return events, end, wire


def body_of(status: str, body: bytes, headers: Iterable[str] = (), length: int | None = None) -> bytes:
    """A whole answer."""
    rows = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(rows).encode() + b"\r\n\r\n" + body


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def say() -> Callable[..., Answer]:
    return answering


@pytest.fixture
def whole() -> Callable[..., bytes]:
    return body_of
