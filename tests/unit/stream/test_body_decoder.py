"""Bodies by media type and profile: each has one reader, wherever its bytes are split."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.adapters.normalisers import all_normalisers
from turngate.domain.stream.body import (
    BINARY,
    SERVER_SENT,
    BodyDecoder,
    JsonBodyDecoder,
    body_decoder,
    body_payloads,
    whole_object,
)
from turngate.domain.stream.eventstream import EventStreamDecoder
from turngate.domain.stream.sse_text import SseDecoder, data_payloads
from turngate.schemas.errors import Refused

WITH_JSON = sorted({p for (p, _), spec in all_normalisers().items() if spec.facts.json_bodies})
WITHOUT = sorted({p for (p, _), spec in all_normalisers().items()} - set(WITH_JSON))


def fed(decoder: BodyDecoder, body: bytes, cuts: list[int]) -> tuple[list[str], str | None]:
    events: list[str] = []
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    try:
        for start, end in pairwise(places):
            events += decoder.feed(body[start:end])
        return events + decoder.end(), None
    except Refused as error:
        return events, error.code


def elements(text: str) -> list[str]:
    """An array read the plain way, all of it at once; what cannot be read comes last."""
    decoder, events = json.JSONDecoder(), list[str]()
    rest = text.lstrip(" \t\r\n").removeprefix("[").lstrip(" \t\r\n")
    while not rest.startswith("]") or events:
        try:
            _, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return [*events, rest]
        events.append(rest[:end])
        rest = rest[end:].lstrip(" \t\r\n")
        if rest.startswith("]"):
            break
        if not rest.startswith(","):
            return [*events, rest]
        rest = rest[1:].lstrip(" \t\r\n")
    rest = rest.removeprefix("]").strip()
    return [*events, rest] if rest else events


TOKENS = st.sampled_from(
    ["[", "]", "{", "}", ",", ":", '"a"', '"', "\\", '"\\""', "1", "-", "true", "NaN", "ø", "😀", " ", "\n",
     '{"a":[1,"]"]}', '"\\\\"', "x", "\u00a0"]
)  # fmt: skip
CUTS = st.lists(st.integers(0, 300), max_size=12)


@settings(deadline=None, max_examples=200)
@given(st.lists(TOKENS, max_size=25).map(lambda parts: "[" + "".join(parts)), CUTS)
def test_an_array_is_read_as_all_at_once_wherever_it_is_split(text: str, cuts: list[int]) -> None:
    body = text.encode()
    for places in ([], cuts, list(range(len(body)))):
        assert fed(JsonBodyDecoder(), body, places) == (elements(text), None)


@settings(deadline=None)
@given(CUTS)
def test_a_mark_at_the_beginning_and_space_before_the_bracket(cuts: list[int]) -> None:
    body = '\ufeff \n[{"a":1}, {"b":2}]\n'.encode()
    assert fed(JsonBodyDecoder(), body, cuts) == (['{"a":1}', '{"b":2}'], None)


BARE = st.lists(
    st.sampled_from(["data: a", 'data: {"x":1}', '{"error":', '{"error":{}}', "}", "event: e", ": c", "", "", "id"]),
    max_size=10,
)  # fmt: skip


def with_bare(lines: list[str], ended: bool) -> list[str]:
    """The same body with `data:` before bare objects, for a reader that knows nothing of them."""
    out: list[str] = []
    bare, fresh = False, True
    if not ended and lines and lines[-1] == "":
        lines, ended = lines[:-1], True  # behind the last line end there is no line
    for place, line in enumerate(lines):
        last = place == len(lines) - 1 and not ended
        bare = line != "" and (bare or (fresh and line.startswith("{")))
        fresh = line == ""
        if bare or not last:
            out.append(f"data: {line}" if bare else line)
    return data_payloads(("\n".join([*out, "", ""]) if bare else "\n".join([*out, ""])).encode())


@settings(deadline=None, max_examples=200)
@given(BARE, CUTS, st.booleans(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_an_object_without_data_is_an_event(lines: list[str], cuts: list[int], ended: bool, end: str) -> None:
    body = (end.join(lines) + (end if ended and lines else "")).encode()
    expected = with_bare(lines, ended)
    for places in ([], cuts, list(range(len(body)))):
        assert fed(SseDecoder(bare_json=True), body, places) == (expected, None)
        if not body.lstrip().startswith(b"["):
            assert fed(JsonBodyDecoder(), body, places) == (expected, None)


@pytest.mark.parametrize("profile", [*WITH_JSON, *WITHOUT, "no-such-profile"])
def test_the_reader_of_a_media_type(profile: str) -> None:
    has_json = profile in WITH_JSON
    assert isinstance(body_decoder(profile, BINARY), EventStreamDecoder)
    assert isinstance(body_decoder(profile, SERVER_SENT), JsonBodyDecoder if has_json else SseDecoder)
    for kind in ("application/json", "application/problem+json"):
        assert isinstance(body_decoder(profile, kind), JsonBodyDecoder) == has_json
    for kind in ("", "text/html", "application/x-ndjson", "text/plain"):
        assert body_decoder(profile, kind) is None


@pytest.mark.parametrize("profile", [*WITH_JSON, *WITHOUT])
def test_a_recorded_body_that_is_one_object_is_one_event(profile: str) -> None:
    assert body_payloads(b'{\n "error": {}\n}', profile) == ['{\n "error": {}\n}']
    assert body_payloads(b"\xef\xbb\xbf {}", profile) == ([] if profile in WITH_JSON else [" {}"])


@pytest.mark.parametrize(("body", "text"), [(b'{"a": 1}', '{"a": 1}'), (b"[]", None), (b"{", None), (b"\xff", None),
                                            (b"[" * 100_000, None), (b"", None)])  # fmt: skip
def test_an_object_in_place_of_a_stream(body: bytes, text: str | None) -> None:
    assert whole_object(body) == text


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_element_has_a_size_and_what_is_whole_before_it_comes_out(size: int) -> None:
    body = b'[{"a":1},{"b":"' + b"x" * 200 + b'"},{"c":1}]'
    for most, found in ((100, (['{"a":1}'], "event_too_large")), (300, None)):
        decoder = JsonBodyDecoder(most)
        got = fed(decoder, body, list(range(0, len(body), size)))
        assert got == found or (found is None and len(got[0]) == 3)
        if found is not None:
            with pytest.raises(Refused):
                decoder.feed(b"]")
            with pytest.raises(Refused):
                decoder.end()


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_an_element_that_is_not_text_ends_the_reading(size: int) -> None:
    body = b'[{"a":1},{"b":"\xff"},{"c":1}]'
    assert fed(JsonBodyDecoder(), body, list(range(0, len(body), size))) == (['{"a":1}'], "invalid_unicode")
    with pytest.raises(Refused):
        body_payloads(body, WITH_JSON[0])


def test_space_without_end_is_bounded() -> None:
    decoder = JsonBodyDecoder(1000)
    for _ in range(10):
        assert decoder.feed(b" " * 100) == []
    with pytest.raises(Refused, match="1000"):
        decoder.feed(b" " * 100)
