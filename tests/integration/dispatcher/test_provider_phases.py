"""What the HTTP client tells about a request that failed: on real sockets, since it decides what counts as evidence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from turngate.dispatcher.provider import HttpProvider, open_client
from turngate.dispatcher.relays import Ended, Relay
from turngate.runtime.endpoints import Endpoint

BODY = b"{" + b" " * 100_000 + b"}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def relay(port: int) -> Relay:
    endpoint = Endpoint(name="local", api="openai-chat", profile="openai", base_url=f"http://127.0.0.1:{port}")
    return Relay(
        tenant="acme", conversation="c", operation_id="op-1", generation=1, relay=1, endpoint=endpoint,
        manifest_digest="0" * 64, profile="openai", normaliser="openai@1", method="POST", path="/v1/chat/completions",
        headers={}, body=BODY, idempotency_key="k", lease_until_boot_ms=0,
    )  # fmt: skip


async def ended(serve: Serve, may_send: Callable[[], bool] = lambda: True) -> tuple[list[str], Ended, int]:
    """Events, end and number of connections of one request against a server."""
    served: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(handle(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server, open_client() as client:
        stream = await HttpProvider(client, lambda: 0.0).open(relay(server.sockets[0].getsockname()[1]), may_send)
        events: list[str] = []
        while (batch := await stream.batch()) is not None:
            events += batch
        await stream.close()
    await asyncio.gather(*served)
    return events, stream.ended(), len(served)


async def whole_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(len(BODY))


async def test_a_lapsed_lease_stops_the_request_before_its_first_byte() -> None:
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())

    events, end, _ = await ended(serve, may_send=lambda: False)
    assert (events, end) == ([], Ended("notSent"))
    assert b"".join(received) == b""


async def test_nobody_listens() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with open_client() as client:
        stream = await HttpProvider(client, lambda: 0.0).open(relay(port), lambda: True)
        assert await stream.batch() is None
    assert stream.ended() == Ended("notSent")


@pytest.mark.parametrize("head", [b"", HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n"])
async def test_a_connection_that_breaks_after_the_body_proves_nothing(head: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole_request(reader)
        writer.write(head)
        await writer.drain()

    events, end, connections = await ended(serve)
    assert events == (["a"] if head else [])
    assert end == Ended("reset")
    assert connections == 1, "a request is never repeated"


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole_request(reader)
        writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")

    _, end, connections = await ended(serve)
    assert (end.status, end.rejected, connections) == (307, True, 1)


async def test_a_stream_that_is_closed_in_order_ends_with_eof() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole_request(reader)
        writer.write(HEAD + b"\r\ndata: a\n\ndata: b\n\n")

    assert await ended(serve) == (["a", "b"], Ended("eof"), 1)
