"""Events are the same however the bytes were split, and what cannot be an event is refused in time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.stream.sse_text import SseDecoder, data_payloads
from turngate.schemas.errors import Refused

PIECES = st.sampled_from([
    "data: {\"a\":1}", "data:b", "data", "data: ", "data:  two spaces", ":", ": keep-alive", "event: ping", "id: 7",
    "retry: 3000", "dataset: x", "unknown", "data: ä€😀", "", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r", "\ufeff",
])  # fmt: skip
BODIES = st.lists(PIECES, max_size=40).map("".join)


def by_the_rules(body: str) -> list[str]:
    """The specification's algorithm over the whole text, as plainly as it reads."""
    lines = re.split("\r\n|\n|\r", body.removeprefix("\ufeff"))
    events, data = [], ""
    for line in lines[:-1]:
        if line == "":
            if data != "":
                events.append(data.removesuffix("\n"))
            data = ""
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            if field == "data":
                data += value.removeprefix(" ") + "\n"
    return events


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def fed(body: bytes, cuts: list[int], bytes_max: int = 1 << 20) -> list[str]:
    decoder = SseDecoder(bytes_max)
    return [event for piece in pieces(body, cuts) for event in decoder.feed(piece)]


def refusal(decoder: SseDecoder, chunks: Iterable[bytes]) -> tuple[list[str], str, int]:
    """Events before the decoder refused, its code, and how many bytes it had been given."""
    events: list[str] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        try:
            events += decoder.feed(chunk)
        except Refused as error:
            return events, error.code, size
    raise AssertionError("nothing was refused")


@settings(deadline=None)
@given(BODIES, st.lists(st.integers(0, 1000), max_size=12))
def test_where_the_bytes_are_split_makes_no_difference(body: str, cuts: list[int]) -> None:
    encoded = body.encode()
    expected = by_the_rules(body)
    assert fed(encoded, []) == expected
    assert fed(encoded, cuts) == expected
    assert fed(encoded, list(range(len(encoded)))) == expected
    assert data_payloads(encoded) == expected


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: one\ndata: two\n\n", ["one\ntwo"]),
        (b"\xef\xbb\xbfdata: first\n\n", ["first"]),
        (b"data: \xef\xbb\xbf\n\n", ["\ufeff"]),
        (b": comment\n\nretry: 3000\n\nevent: ping\n\nid: 1\n\ndata: a\n\n", ["a"]),
        (b'data: {"half\nevent: error\ndata: {"error":{}}\n\n', ['{"half\n{"error":{}}']),
        (b"data: whole\n\ndata: cut\n", ["whole"]),
        (b"data: whole\n\ndata: cut\r", ["whole"]),
    ],
)
def test_what_is_an_event(body: bytes, events: list[str]) -> None:
    assert fed(body, []) == events
    assert fed(body, list(range(len(body)))) == events


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(0, 1000), max_size=8))
def test_a_large_event_is_refused_wherever_it_is_split(extra: int, cuts: list[int]) -> None:
    whole = b"data: ok\n\n"
    for large in (b"data: " + b"x" * (100 + extra) + b"\n\n", b"data: y\n" * (12 + extra) + b"\n"):
        chunks = [*pieces(whole + large, cuts), b""]
        assert refusal(SseDecoder(90), chunks)[:2] == (["ok"], "event_too_large")


@pytest.mark.parametrize("endless", [b"data: ", b": comment ", b"x"])
def test_a_line_without_end_does_not_grow(endless: bytes) -> None:
    decoder = SseDecoder(1000)
    events, code, size = refusal(decoder, [endless, *[b"x" * 100] * 50])
    assert (events, code) == ([], "event_too_large")
    assert size < 1200
    assert refusal(decoder, [b"\n\ndata: a\n\n"])[0] == []


def test_many_small_events_and_comments_are_never_too_large() -> None:
    assert len(fed(b": keep-alive\n\ndata: abc\n\n" * 1000, [], bytes_max=20)) == 1000


@pytest.mark.parametrize("broken", [b"data: \xff\n\n", b"data: \xed\xa0\x80\n\n", b"data: a\xc3\n\n"])
def test_bytes_that_are_not_utf8_are_refused(broken: bytes) -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\n" + broken) == ["a"]
    with pytest.raises(Refused) as refused:
        decoder.feed(b"")
    assert refused.value.code == "invalid_unicode"
    with pytest.raises(Refused):
        data_payloads(broken)
