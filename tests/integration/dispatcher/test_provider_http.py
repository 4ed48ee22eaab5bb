"""One request a relay, on real sockets: what goes out, where it goes, and what the answers become."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
import pytest
from pydantic import ValidationError

from turngate.dispatcher.provider import HttpLimits, HttpProvider, open_client
from turngate.dispatcher.relays import Ended
from turngate.runtime.endpoints import Endpoint

if TYPE_CHECKING:
    from conftest import Answer, Lab, Wire

Say = Callable[..., "Answer"]
Whole = Callable[..., bytes]

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SECRET = "k-3d81c0de"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


# --- what goes out ---------------------------------------------------------------------------------------------------


async def test_the_headers_on_the_wire_are_these_and_no_others(
    lab: Lab, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIM_KEY", SECRET)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    endpoint = {"credential_env": "SIM_KEY", "headers": {"X-Team": "assistants"}}
    _, end, wire = await lab.one(
        say(STREAM + b"data: a\n\n"), endpoint=endpoint, headers={"openai-beta": "b"}, body=b'{"n": 1}'
    )
    assert end == Ended("eof")
    (request,) = wire.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.body == b'{"n": 1}'
    assert request.headers == {
        "host": f"127.0.0.1:{wire.port}", "connection": "keep-alive", "user-agent": "turngate",
        "accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json",
        "content-length": "8", "x-team": "assistants", "openai-beta": "b", "authorization": f"Bearer {SECRET}",
        "x-turngate-operation": "op-1", "x-turngate-generation": "1",
    }  # fmt: skip


async def test_anthropic_is_given_its_key_and_a_replaying_endpoint_its_idempotency_key(
    lab: Lab, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIM_KEY", SECRET)
    endpoint = {"api": "anthropic", "credential_env": "SIM_KEY", "idempotent_replay": True}
    _, _, wire = await lab.one(say(STREAM), endpoint=endpoint)
    headers = wire.requests[0].headers
    assert (headers["x-api-key"], headers["idempotency-key"]) == (SECRET, "k")
    assert "authorization" not in headers


async def test_no_cookie_of_one_request_goes_with_the_next(lab: Lab, say: Say, whole: Whole) -> None:
    answer = say(whole("429 Too Many Requests", b"{}", ["Set-Cookie: session=abc; Path=/"]), close=False)
    async with lab.wire(answer) as wire:
        await lab.ask(lab.relay(wire.port), lab.relay(wire.port, conversation="other"))
        assert wire.connections == 1, "the second went over the same connection"
        assert [("cookie" in request.headers) for request in wire.requests] == [False, False]


@pytest.mark.parametrize("path", ["@127.0.0.1:9/v1", ":9/v1", ".example/v1", "/v1/../admin", "/v1 x", "/ü", ""])
async def test_a_path_never_leads_off_its_endpoint(lab: Lab, say: Say, path: str) -> None:
    _, end, wire = await lab.one(say(STREAM), path=path)
    assert (end, wire.connections) == (Ended("notSent", error_class="no_address"), 0)


async def test_a_base_url_may_have_a_path(lab: Lab, say: Say) -> None:
    async with lab.wire(say(STREAM)) as wire:
        base = f"http://127.0.0.1:{wire.port}/openai/"
        await lab.ask(
            lab.relay(wire.port, endpoint={"base_url": base}, path="/v1/messages?beta=true"),
            lab.relay(wire.port, path="//127.0.0.1:9/v1"),
        )
        targets = [request.line.split()[1] for request in wire.requests]
        assert targets == ["/openai/v1/messages?beta=true", "//127.0.0.1:9/v1"]


@pytest.mark.parametrize(
    "field",
    [
        {"base_url": f"http://user:{SECRET}@127.0.0.1:1"},
        {"headers": {"Authorization": SECRET}},
        {"headers": {"Cookie": SECRET}},
        {"headers": {"anthropic-beta": SECRET}},
        {"headers": {"x-team": f"a\r\nx-other: {SECRET}"}},
        {"headers": {"x team": SECRET}},
        {"headers": {"x-team": SECRET, "X-Team": SECRET}},
    ],
)
def test_an_endpoint_cannot_carry_what_is_not_its_to_set(field: dict[str, object]) -> None:
    values = {"name": "local", "api": "openai-chat", "profile": "openai", "base_url": "http://127.0.0.1:1"}
    with pytest.raises(ValidationError) as refused:
        Endpoint.model_validate(values | field)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["", f"{SECRET}\nx", f"{SECRET}ü", f" {SECRET}"])
async def test_a_credential_that_cannot_be_sent_is_never_told(
    lab: Lab, say: Say, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SIM_KEY", value)
    with caplog.at_level(logging.DEBUG):
        _, end, wire = await lab.one(say(STREAM), endpoint={"credential_env": "SIM_KEY"})
    assert (end, wire.connections) == (Ended("notSent", error_class="no_credential"), 0)
    assert SECRET not in caplog.text


async def test_neither_a_relay_nor_the_libraries_tell_a_credential(
    lab: Lab, say: Say, whole: Whole, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SIM_KEY", SECRET)
    with caplog.at_level(logging.DEBUG):
        _, end, wire = await lab.one(
            say(whole("401 Unauthorized", b'{"error":{"message":"bad key"}}')), endpoint={"credential_env": "SIM_KEY"}
        )
        relay = lab.relay(
            wire.port, endpoint={"credential_env": "SIM_KEY"}, headers={"a": SECRET}, body=SECRET.encode()
        )
    assert wire.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert "httpcore2" in caplog.text, "the libraries do write at this level"
    assert SECRET not in caplog.text + repr(relay) + repr(end)


# --- exactly one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "401 Unauthorized", "429 Too Many", "503 Unavailable"])
async def test_no_answer_makes_a_second_request(lab: Lab, say: Say, whole: Whole, status: str) -> None:
    headers = ["Location: /elsewhere", "WWW-Authenticate: Basic", "Retry-After: 0"]
    _, end, wire = await lab.one(say(whole(status, b"{}", headers)))
    assert (end.status, end.rejected, len(wire.requests), wire.connections) == (int(status[:3]), True, 1, 1)


async def test_a_connection_lost_without_an_answer_is_not_tried_again(lab: Lab, say: Say) -> None:
    _, end, wire = await lab.one(say())
    assert (end, len(wire.requests), wire.connections) == (Ended("reset"), 1, 1)


async def test_a_body_that_could_not_be_written_whole_was_not_sent(lab: Lab) -> None:
    """The server reads the head, and nothing of a body that no socket buffer holds, until it hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    async with server:
        relay = lab.relay(server.sockets[0].getsockname()[1], body=b"x" * (64 << 20))
        ((events, end),) = await lab.ask(relay)
    assert (events, end) == ([], Ended("notSent"))


async def test_a_body_the_server_does_not_take_times_out_as_not_sent(lab: Lab) -> None:
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.transport.abort()

    lab.limits = HttpLimits(write_seconds=0.2)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    async with server:
        relay = lab.relay(server.sockets[0].getsockname()[1], body=b"x" * (64 << 20))
        ((events, end),) = await lab.ask(relay)
        done.set()
    assert (events, end) == ([], Ended("notSent"))


# --- how streams end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
async def test_events_are_the_same_however_they_arrive(lab: Lab, say: Say, size: int) -> None:
    body = '\ufeff: hi\r\n\r\ndata: {"a":\r\ndata: "ä😀"}\r\n\r\nretry: 5\n\nevent: x\rdata: b\r\rdata: cut'.encode()
    parts = [chunk(body[start : start + size]) for start in range(0, len(body), size)]
    events, end, _ = await lab.one(say(CHUNKED, *parts, b"0\r\n\r\n"))
    assert (events, end) == (['{"a":\n"ä😀"}', "b"], Ended("eof"))


async def test_the_text_is_utf8_whatever_charset_is_declared(lab: Lab, say: Say) -> None:
    head = STREAM.replace(b"event-stream", b"event-stream; charset=ISO-8859-1")
    assert (await lab.one(say(head + "data: ä\n\n".encode())))[:2] == (["ä"], Ended("eof"))


async def test_a_cut_between_events_and_in_one(lab: Lab, say: Say) -> None:
    for tail in (b"", chunk(b"data: hal")):
        answer = say(CHUNKED, chunk(b"data: a\n\n"), tail)
        assert (await lab.one(answer))[:2] == (["a"], Ended("reset"))


async def test_a_length_that_is_not_reached_is_a_reset(lab: Lab, say: Say, whole: Whole) -> None:
    answer = say(whole("200 OK", b"data: a\n\n", ["Content-Type: text/event-stream"], length=500))
    assert (await lab.one(answer))[:2] == (["a"], Ended("reset"))


async def test_silence_is_a_timeout_before_and_after_the_head(lab: Lab, say: Say) -> None:
    lab.limits = HttpLimits(idle_seconds=0.2)
    for head, events in ((b"", []), (STREAM + b"data: a\n\n", ["a"])):
        got, end, wire = await lab.one(say(head, b"data: late\n\n", pause=True))
        assert (got, end, len(wire.requests)) == (events, Ended("timeout"), 1)


async def test_an_event_beyond_the_limit_ends_the_stream_and_closes_the_connection(lab: Lab) -> None:
    async def endless(wire: Wire, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + b"data: a\n\ndata: ")
        while not writer.transport.is_closing():
            writer.write(b"x" * 65_536)
            await writer.drain()

    lab.limits = HttpLimits(event_bytes_max=200_000)
    async with lab.wire(endless) as wire, open_client(lab.limits) as client:
        stream = await HttpProvider(client, lambda: 0.0, lab.limits).open(lab.relay(wire.port), lambda: True)
        assert await stream.batch() == ["a"]
        assert await stream.batch() is None
        assert stream.ended() == Ended("reset", error_class="event_too_large")
        async with asyncio.timeout(30):
            await wire.closed_by_peer.wait()
        await stream.close()


async def test_an_event_whose_json_text_would_not_fit_a_frame_is_too_large(lab: Lab, say: Say) -> None:
    lab.limits = HttpLimits(event_bytes_max=1000)
    fits, grows = b"data: " + b"x" * 900 + b"\n\n", b"data: " + b"\x01" * 900 + b"\n\n"
    events, end, _ = await lab.one(say(STREAM + fits + grows + b"data: c\n\n"))
    assert (events, end) == (["x" * 900], Ended("reset", error_class="event_too_large"))
    assert len(orjson.dumps("\x01" * 900)) > 1000


async def test_bytes_that_are_not_text_end_the_stream(lab: Lab, say: Say) -> None:
    events, end, _ = await lab.one(say(STREAM + b"data: a\n\ndata: \xff\n\ndata: b\n\n"))
    assert (events, end) == (["a"], Ended("reset", error_class="invalid_unicode"))


async def test_a_reader_that_takes_nothing_holds_the_socket_back(lab: Lab) -> None:
    sent = 0

    async def endless(wire: Wire, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM)
        while not writer.transport.is_closing():
            writer.write(b"data: " + b"x" * 10_000 + b"\n\n")
            await writer.drain()
            sent += 10_000

    lab.limits = HttpLimits(waiting_bytes_max=100_000)
    async with lab.wire(endless) as wire, open_client(lab.limits) as client:
        stream = await HttpProvider(client, lambda: 0.0, lab.limits).open(lab.relay(wire.port), lambda: True)
        taken, seen = 0, -1
        async with asyncio.timeout(30):
            while seen != sent:  # the sender has come to rest: every buffer between is full
                seen = sent
                await asyncio.sleep(0.1)
        for _ in range(3):
            batch = await stream.batch()
            assert batch is not None
            assert sum(map(len, batch)) <= 100_000 + 2 * 65_536
            taken += len(batch)
        assert taken > 0
        await stream.close()


# --- answers that are no stream --------------------------------------------------------------------------------------


async def test_an_error_answer_has_its_class_and_its_wait(lab: Lab, say: Say, whole: Whole) -> None:
    body = b'{"error":{"code":"insufficient_quota"}}'
    headers = ["Content-Type: application/json", "Retry-After: 7"]
    _, end, _ = await lab.one(say(whole("429 Too Many Requests", body, headers)))
    assert end == Ended("http", 429, "quota", 7000, rejected=True)
    _, end, _ = await lab.one(say(whole("529 Overloaded", b"<html>", headers)))
    assert end == Ended("http", 529, "overloaded", 7000, rejected=True)


async def test_the_class_of_an_error_does_not_wait_for_its_body(lab: Lab, say: Say, whole: Whole) -> None:
    lab.limits = HttpLimits(body_seconds=0.2)
    _, end, _ = await lab.one(say(whole("500 Oops", b"half", length=100), b"never", pause=True))
    assert end == Ended("http", 500, "ambiguous")


async def test_an_endless_error_body_is_left(lab: Lab) -> None:
    async def endless(wire: Wire, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b"x" * 65_536)
            await writer.drain()

    _, end, _ = await lab.one(endless)
    assert end == Ended("http", 400, "invalid_request", rejected=True)


async def test_a_json_object_in_place_of_a_stream_is_one_event(lab: Lab, say: Say, whole: Whole) -> None:
    """Some servers put an error into an answer of 200: the gate sees it in the server's own words."""
    body = b'{\n "error": {"message": "no such model"}\n}'
    events, end, _ = await lab.one(say(whole("200 OK", body, ["Content-Type: application/json; charset=utf-8"])))
    assert (events, end) == ([body.decode()], Ended("eof"))


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [("200 OK", "text/html", b"<html>"), ("200 OK", "application/json", b"{cut"), ("200 OK", "application/json", b"[]"),
     ("200 OK", "application/json", b"{" + b" " * 70_000 + b"}"), ("204 No Content", "text/plain", b"")],
)  # fmt: skip
async def test_anything_else_in_place_of_a_stream_proves_nothing(
    lab: Lab, say: Say, whole: Whole, status: str, kind: str, body: bytes
) -> None:
    answer = say(whole(status, body, [f"Content-Type: {kind}"]))
    events, end, _ = await lab.one(answer)
    assert (events, end) == ([], Ended("http", int(status[:3]), "ambiguous"))
