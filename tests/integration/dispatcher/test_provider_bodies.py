"""What goes onto stream-events is what conformance reads from the same bytes, in every form a body has."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turngate.dispatcher.relays import Ended
from turngate.domain.stream.body import BINARY, SERVER_SENT, body_payloads
from turngate.domain.stream.conformance import UnreadableFixture, read_fixture
from turngate.domain.stream.eventstream import event_texts

if TYPE_CHECKING:
    from conftest import Answer, Lab

FIXTURES = Path(__file__).parents[2] / "conformance" / "fixtures"
JSON = "application/json"
Body = tuple[str, str, bytes]
Say = Callable[..., "Answer"]


def bodies() -> Iterator[tuple[str, Body]]:
    """Every recorded body, and every fixture as the body it may have come in: profile, media type, bytes."""
    for path in sorted(FIXTURES.iterdir()):
        data = path.read_bytes()
        if path.suffix in (".sse", ".body"):
            profile = "gemini" if path.suffix == ".body" else "openai"
            yield path.name, (profile, JSON if data.startswith(b"[") else SERVER_SENT, data)
            continue
        try:
            fixture = read_fixture(data)
        except UnreadableFixture:
            continue
        if "eventstream_b64" in (fields := json.loads(data)):
            yield path.name, ("bedrock", BINARY, base64.b64decode(fields["eventstream_b64"]))
            continue
        lines = [event.replace("\n", "\ndata: ") for event in fixture.events]
        sent = "".join(f"data: {line}\n\n" for line in lines).encode("utf-8", "surrogatepass")
        yield path.name, (fixture.profile, SERVER_SENT, sent)
        if fixture.profile == "gemini":
            yield f"{path.name} as array", ("gemini", JSON, ("[" + ",\r\n".join(fixture.events) + "]").encode())


BODIES = dict(bodies())


def recorded(profile: str, media_type: str, body: bytes) -> tuple[list[str], Ended]:
    """As `turngate conformance --sse` reads it."""
    if media_type == BINARY:
        events, fault = event_texts(body)
        return events, Ended("eof") if fault is None else Ended("reset", error_class=fault)
    return body_payloads(body, profile), Ended("eof")


def split(body: bytes, seed: str) -> list[bytes]:
    chance = random.Random(seed)
    cuts = sorted({0, len(body), *(chance.randrange(len(body) + 1) for _ in range(12))})
    return [b"%x\r\n%b\r\n" % (b - a, body[a:b]) for a, b in pairwise(cuts)]


@pytest.mark.parametrize("name", BODIES)
async def test_the_events_are_those_that_conformance_reads(lab: Lab, say: Say, name: str) -> None:
    profile, media_type, body = BODIES[name]
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: {media_type}\r\n\r\n".encode()
    answer = say(head, *split(body, name), b"0\r\n\r\n")
    events, end, wire = await lab.one(answer, profile=profile)
    assert (events, end) == recorded(profile, media_type, body)
    assert wire.requests[0].headers["accept"] == (BINARY if profile == "bedrock" else SERVER_SENT)


def test_all_forms_are_among_them() -> None:
    forms = {(profile, media_type) for profile, media_type, _ in BODIES.values()}
    assert {("bedrock", BINARY), ("gemini", JSON), ("gemini", SERVER_SENT), ("openai", SERVER_SENT)} <= forms
    faults = {recorded(*body)[1].error_class for body in BODIES.values()}
    assert faults == {None, "bad_checksum", "cut_frame"}


async def test_an_array_that_breaks_off_with_its_connection_is_a_reset(lab: Lab, say: Say) -> None:
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: {JSON}\r\n\r\n".encode()
    answer = say(head, b'9\r\n[{"a":1},\r\n', b'6\r\n{"b":2\r\n')
    assert (await lab.one(answer, profile="gemini"))[:2] == (['{"a":1}'], Ended("reset"))


async def test_an_error_without_data_inside_a_stream_is_an_event(lab: Lab, say: Say) -> None:
    body = b'data: {"a":1}\n\n{\n "error": {}\n}\n'
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: {SERVER_SENT}\r\n\r\n".encode()
    answer = say(head, body)
    assert (await lab.one(answer, profile="gemini"))[:2] == (['{"a":1}', '{\n "error": {}\n}'], Ended("eof"))
    assert (await lab.one(answer, profile="openai"))[:2] == (['{"a":1}'], Ended("eof"))


async def test_an_event_beyond_the_limit_in_a_binary_stream(lab: Lab, say: Say) -> None:
    profile, media_type, body = BODIES["converse-binary-call.json"]
    lab.limits = type(lab.limits)(event_bytes_max=130)
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: {media_type}\r\n\r\n".encode()
    events, end, _ = await lab.one(say(head, body), profile=profile)
    assert end == Ended("reset", error_class="event_too_large")
    assert events == recorded(profile, media_type, body)[0][: len(events)]
