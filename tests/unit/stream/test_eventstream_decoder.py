"""AWS event stream: messages are the same however the bytes were split, and no damaged byte runs a call."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.cli.app import run_command_line
from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.conformance import UnreadableFixture, judge_fixture, read_fixture
from turngate.domain.stream.eventstream import HEADERS_BYTES_MAX, EventStreamDecoder, event_texts, is_event_stream
from turngate.schemas.errors import Refused

TOOLS = compile_toolset({"weather": {"type": "object"}})


def frame(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def header(name: str, kind: int, value: bytes) -> bytes:
    size = struct.pack(">H", len(value)) if kind in (6, 7) else b""
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + size + value


def said(**words: str) -> bytes:
    return b"".join(header(":" + name.replace("_", "-"), 7, word.encode()) for name, word in words.items())


def event(name: str, payload: object = None, extra: bytes = b"") -> bytes:
    text = json.dumps({} if payload is None else payload, ensure_ascii=False).encode()
    return frame(said(message_type="event", event_type=name, content_type="application/json") + extra, text)


def exception(name: str, payload: bytes = b"{}") -> bytes:
    return frame(said(message_type="exception", exception_type=name), payload)


CALL = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "øy"}, "p": "abc"}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    event(
        "contentBlockStart",
        {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "weather"}}},
    ),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"city": "Bergen"}'}}}),
    event("contentBlockStop", {"contentBlockIndex": 1}),
    event("messageStop", {"stopReason": "tool_use"}),
    event("metadata", {"usage": {"totalTokens": 3}}),
]
BODY = b"".join(CALL)


def judge(body: bytes) -> Outcome:
    texts, fault = event_texts(body)
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    assembler.feed(0, texts)
    return assembler.end(StreamEnd("reset" if fault else "eof", error_class=fault, count=len(texts)))


def refused(body: bytes, bytes_max: int = 1 << 20, size: int = 1 << 20) -> tuple[list[str], str]:
    decoder = EventStreamDecoder(bytes_max)
    events: list[str] = []
    try:
        for at in range(0, len(body), size):
            events += decoder.feed(body[at : at + size])
        decoder.end()
    except Refused as error:
        with pytest.raises(Refused):  # from then on at every call
            decoder.feed(CALL[0])
        return events, error.code
    raise AssertionError("nothing was refused")


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(st.characters(exclude_categories=["Cs"]))
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abé", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
OTHER_HEADERS = st.dictionaries(
    st.text("xyzé", min_size=1, max_size=6),
    st.one_of(
        st.sampled_from([(0, b""), (1, b"")]),
        *(st.tuples(st.just(kind), st.binary(min_size=size, max_size=size))
          for kind, size in ((2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16))),
        st.tuples(st.just(6), st.binary(max_size=300)),
        st.tuples(st.just(7), st.text("aé", max_size=300).map(str.encode)),
    ),
    max_size=4,
)  # fmt: skip
MESSAGES = st.lists(
    st.tuples(st.text("abcé\"\\", min_size=1, max_size=5), st.dictionaries(st.text("ab", max_size=3), JSON, max_size=3),
              OTHER_HEADERS),
    max_size=5,
)  # fmt: skip


@settings(deadline=None)
@given(MESSAGES, st.lists(st.integers(0, 1 << 16), max_size=12))
def test_what_was_written_is_read_wherever_it_is_split(
    messages: list[tuple[str, dict[str, object], dict[str, tuple[int, bytes]]]], cuts: list[int]
) -> None:
    body = b""
    expected = []
    for name, payload, others in messages:
        extra = b"".join(header(key, kind, value) for key, (kind, value) in others.items())
        body += event(name, payload, extra)
        expected.append(f"{{{json.dumps(name)}:{json.dumps(payload, ensure_ascii=False)}}}")
    for edges in ([0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)], list(range(len(body) + 1))):
        decoder = EventStreamDecoder()
        assert [text for a, b in pairwise(edges) for text in decoder.feed(body[a:b])] == expected
        decoder.end()
    assert event_texts(body) == (expected, None)
    assert is_event_stream(body) == bool(messages)


def test_a_payload_is_given_on_exactly_as_it_came() -> None:
    payload = b' {"a" : 1.0, "a": 10000000000000000000000, "b":"\\u00e9"} '
    ((text,), fault) = event_texts(frame(said(message_type="event", event_type="metadata"), payload))
    assert (text, fault) == ('{"metadata":' + payload.decode() + "}", None)
    assert event_texts(frame(said(message_type="event", event_type="x"), b"")) == (['{"x":{}}'], None)


def test_cut_at_every_byte_nothing_damaged_runs() -> None:
    terminal = len(BODY) - len(CALL[-1])
    for cut in range(len(BODY)):
        outcome = judge(BODY[:cut])
        if cut == terminal:  # whole events up to the terminal; only the usage is missing
            assert [call.arguments for call in outcome.calls] == [{"city": "Bergen"}]
            continue
        assert (outcome.calls, outcome.blocks) == ((), ())
        assert outcome.verdict == ("unknown" if cut < terminal else "blocked")
        assert [f.code for f in outcome.findings if f.severity == "error"] == ["missing_terminal"]


def test_no_flipped_bit_runs_a_call() -> None:
    for bit in range(8 * len(BODY)):
        damaged = bytearray(BODY)
        damaged[bit // 8] ^= 1 << bit % 8
        outcome = judge(bytes(damaged))
        assert (outcome.verdict == "commit", outcome.calls) == (False, ()), bit


@given(st.integers(0, len(BODY)), st.integers(0, len(BODY)), st.binary(max_size=20))
@settings(max_examples=300, deadline=None)
def test_a_spliced_body_runs_no_other_call(a: int, b: int, middle: bytes) -> None:
    for call in judge(BODY[:a] + middle + BODY[b:]).calls:
        assert call.arguments_raw == '{"city": "Bergen"}'


GOOD = event("metadata")
TYPED = said(message_type="event", event_type="metadata")
BROKEN = [
    ("prelude checksum", GOOD[:8] + b"\0\0\0\0" + GOOD[12:], "bad_checksum"),
    ("prelude checksum, before its message is there", GOOD[:8] + b"\0\0\0\0", "bad_checksum"),
    ("message checksum", GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "bad_checksum"),
    ("headers longer than the message", struct.pack(">III", 16, 1, zlib.crc32(
        struct.pack(">II", 16, 1))) + b"\0" * 4, "bad_frame"),
    ("shorter than a message", struct.pack(">III", 15, 0, zlib.crc32(struct.pack(">II", 15, 0))), "bad_frame"),
    ("headers too long", struct.pack(">III", 1 << 19, HEADERS_BYTES_MAX + 1, zlib.crc32(
        struct.pack(">II", 1 << 19, HEADERS_BYTES_MAX + 1))), "bad_frame"),
    ("too large", struct.pack(">III", (1 << 20) + 1, 0, zlib.crc32(struct.pack(">II", (1 << 20) + 1, 0))),
     "event_too_large"),
    ("name cut", frame(TYPED + b"\x05ab", b"{}"), "bad_frame"),
    ("name fills the headers", frame(TYPED + b"\x02ab", b"{}"), "bad_frame"),
    ("value cut", frame(TYPED + header("a", 4, b"123"), b"{}"), "bad_frame"),
    ("length cut", frame(TYPED + b"\x01a\x07\x00", b"{}"), "bad_frame"),
    ("text cut", frame(TYPED + b"\x01a\x07\x00\x09ab", b"{}"), "bad_frame"),
    ("unknown header type", frame(TYPED + header("a", 10, b""), b"{}"), "bad_frame"),
    ("header without name", frame(TYPED + header("", 0, b""), b"{}"), "bad_frame"),
    ("header twice", frame(TYPED + said(event_type="messageStop"), b"{}"), "bad_frame"),
    ("no message type", frame(said(event_type="metadata"), b"{}"), "bad_frame"),
    ("unknown message type", frame(said(message_type="note", event_type="metadata"), b"{}"), "bad_frame"),
    ("no event type", frame(said(message_type="event"), b"{}"), "bad_frame"),
    ("empty event type", frame(said(message_type="event", event_type=""), b"{}"), "bad_frame"),
    ("event type as bytes", frame(said(message_type="event") + header(":event-type", 6, b"metadata"), b"{}"),
     "bad_frame"),
    ("no exception type", frame(said(message_type="exception"), b"{}"), "bad_frame"),
    ("no error code", frame(said(message_type="error"), b""), "bad_frame"),
    ("payload is no JSON", frame(TYPED, b"{"), "bad_frame"),
    ("payload is no object", frame(TYPED, b"[]"), "bad_frame"),
    ("a second member in the payload", frame(TYPED, b'{},"messageStop":{}'), "bad_frame"),
    ("payload is not UTF-8", frame(TYPED, b'{"a":"\xff"}'), "invalid_unicode"),
    ("header is not UTF-8", frame(said(message_type="event") + header(":event-type", 7, b"\xff"), b"{}"),
     "invalid_unicode"),
    ("cut", GOOD[:-1], "cut_frame"),
    ("cut in the prelude", GOOD[:3], "cut_frame"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "code"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_every_fault_has_its_code_and_blocks_what_came_before(bad: bytes, code: str) -> None:
    whole = ['{"metadata":{}}']
    for size in (1 << 20, 1, 7):
        assert refused(GOOD + bad, size=size) == (whole, code)
    outcome = judge(BODY + bad)
    others = {"cut_frame": "missing_terminal", "invalid_unicode": "invalid_unicode", "event_too_large": "too_large"}
    finding = others.get(code, "missing_events")
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert [f.code for f in outcome.findings if f.severity == "error"] == [finding]


def test_a_message_beyond_the_limit_is_refused_before_it_is_there() -> None:
    large = event("metadata", {"a": "x" * 500})
    assert refused(GOOD + large[:12], bytes_max=300) == (['{"metadata":{}}'], "event_too_large")
    assert EventStreamDecoder(len(large)).feed(large)
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    assembler.feed(0, event_texts(BODY)[0])
    outcome = assembler.end(StreamEnd("reset", error_class="event_too_large", count=len(CALL)))
    assert (outcome.verdict, outcome.retry, outcome.calls) == ("blocked", "never", ())


def test_a_reset_behind_the_terminal_without_a_fault_changes_nothing() -> None:
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    assembler.feed(0, event_texts(BODY)[0])
    assert assembler.end(StreamEnd("reset", count=len(CALL))).verdict == "commit"


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (exception("throttlingException", b'{"message":"m"}'), '{"throttlingException":{"message":"m"}}'),
        (exception("validationException", b""), '{"validationException":{}}'),
        (exception("validationException", b"<html>\xff"), '{"validationException":{}}'),
        (exception("Throttled", b'{"message":"m"}'), '{"error":{"code":"Throttled","message":"m"}}'),
        (exception("Throttled", b'{"message":7}'), '{"error":{"code":"Throttled","message":""}}'),
        (
            frame(said(message_type="error", error_code="InternalFailure", error_message="m"), b"{}"),
            '{"error":{"code":"InternalFailure","message":"m"}}',
        ),
    ],
)
def test_exceptions_and_errors_fail_a_turn_that_was_complete(tail: bytes, text: str) -> None:
    assert event_texts(tail) == ([text], None)
    outcome = judge(BODY + tail)
    assert (outcome.verdict, outcome.calls) == ("failed", ())
    assert [f.code for f in outcome.findings] == ["provider_error"]


@pytest.mark.parametrize("body", [b"", b"data: {}\n\n", b"{}", GOOD[:11], b"\0" * 12])
def test_other_bodies_are_not_taken_for_one(body: bytes) -> None:
    assert not is_event_stream(body)


def test_a_fixture_may_hold_the_body_and_a_file_may_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = {"weather": {"type": "object"}}
    fields = {"profile": "bedrock", "tool_schemas": tools, "eventstream_b64": base64.b64encode(BODY).decode()}
    report = judge_fixture(read_fixture(json.dumps(fields).encode()))
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    for name, body, code in (("whole", BODY, 0), ("cut", BODY[:-1], 1), ("bad", BODY[:-1] + b"\0", 1)):
        (tmp_path / name).write_bytes(body)
        arguments = [str(tmp_path / name), "--sse", "--profile", "bedrock", "--tools", str(tmp_path / "tools.json")]
        assert run_command_line(["conformance", *arguments, "--report", "json"]) == code
        printed = json.loads(capsys.readouterr().out)
        assert printed["executable"] == (code == 0)
        if code == 0:
            assert {**printed, "fixtureDigest": None} == {**report, "fixtureDigest": None}


@pytest.mark.parametrize("more", [{"eventstream_b64": "%"}, {"eventstream_b64": "AAEC", "events": []}])
def test_a_fixture_holds_one_stream(more: dict[str, object]) -> None:
    with pytest.raises(UnreadableFixture):
        read_fixture(json.dumps({"profile": "bedrock", **more}).encode())
