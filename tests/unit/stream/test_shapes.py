"""Events of one shape are told by comparing: exactly those that say the same save for their text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.stream import Assembler, StreamEnd, compile_toolset, runs
from turngate.domain.stream.shapes import Shape, shape_of

CHAT = '{"id":"c","choices":[{"index":0,"delta":{"content":"T"},"finish_reason":null}]}'
LAYOUTS = {
    "plain": CHAT,
    "spaced": '{"id": "c", "choices": [{"index": 0, "delta": {"content": "T"}}], "p": "PAD"}',
    "padded": '{"id":"c","choices":[{"index":0,"delta":{"content":"T"}}],"usage":null,"obfuscation":"PAD"}',
    "spaces": '{"type":"d","choices":[{"index":0,"delta":{"content":"T"}}]GAP}',
    "numbered": '{"type":"d","sequence_number":7,"choices":[{"index":0,"delta":{"content":"T"}}]}',
    "numbered and padded": '{"sequence_number":7,"choices":[{"index":0,"delta":{"content":"T"}}],"obfuscation":"PAD"}',
    "number last": '{"choices":[{"index":0,"delta":{"content":"T"}}],"obfuscation":"PAD","x":0,"sequence_number":7}',
    "number last, bare": '{"choices":[{"index":0,"delta":{"content":"T"}}],"sequence_number":7,"x":[1]}',
}
PIECES = (
    '"', "\\", '\\"', "\\n", "\n", " ", "  }", "}", "{", ",", ":", "0", "7", "[", "é", "\ud800", "\u2028", "\x00",
    '"obfuscation":"', ',"obfuscation":"a"', '"sequence_number":', ',"sequence_number":9', '"content":"', "PAD", "null",
)  # fmt: skip


def reads(value: Any, number: int | None) -> str | None:
    """All that such an event must be to go on."""
    try:
        (choice,) = value["choices"]
        if value.get("sequence_number") != number or choice["index"] != 0 or len(choice["delta"]) != 1:
            return None
        text: Any = choice["delta"]["content"]
        return text if isinstance(text, str) and text else None
    except (KeyError, TypeError, ValueError):
        return None


def event(layout: str, text: str, number: int = 7, padding: int = 3, *, plain: bool = True) -> str:
    written = json.dumps(text, ensure_ascii=plain)[1:-1]
    return (
        LAYOUTS[layout].replace('"T"', f'"{written}"').replace("PAD", "aZ3" * padding).replace("GAP", " " * padding)
        .replace("number\":7", f'number":{number}')
    )  # fmt: skip


def shape(layout: str) -> Shape:
    found = shape_of(event(layout, "the "), "the ", number(layout), reads)
    assert found is not None
    return found


def number(layout: str) -> int | None:
    return 7 if "number" in layout else None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("texts", [["a", "b c", "d"], ['{"a', 'é"', "\\\n", "x"], ["一", "\u2028", "\x7f"]])
@pytest.mark.parametrize("plain", [True, False])
def test_events_of_one_shape_give_their_texts(layout: str, texts: list[str], plain: bool) -> None:
    events = [event(layout, text, 8 + n, n, plain=plain) for n, text in enumerate(texts)]
    assert shape(layout).texts([event(layout, "z"), *events], 1, number(layout) and 8) == texts


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shape_ends_with_the_first_event_of_another(layout: str) -> None:
    found = shape(layout)
    good = [event(layout, "a", 7), event(layout, "b", 8)]
    last = event(layout, "c", 9)
    others = [
        event(layout, "", 9), event(layout, "c", 10) if number(layout) else "", "[DONE]", "{}", last[:-1], last + "}",
        last.replace("0", "1", 1), last.replace("c", "\ud800"), last.replace("c", 'c","d'), last.replace("c", "\t"),
        last.replace('"content"', '"content":"","content"', 1),
    ]  # fmt: skip
    for other in others:
        assert found.texts([*good, other, event(layout, "d", 10)], 0, number(layout)) == ["a", "b"], other


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(LAYOUTS)), st.integers(0, 2**32))
def test_whatever_a_shape_tells_is_what_reading_says(layout: str, seed: int) -> None:
    chance = random.Random(seed)
    found = shape(layout)
    first = number(layout)
    for _ in range(40):
        raw = event(layout, chance.choice(["the ", "a", '"', "é"]), 7, chance.randrange(3), plain=chance.random() < 0.5)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(raw) + 1)
            raw = raw[:at] + chance.choice(PIECES) * chance.randrange(2) + raw[at + chance.randrange(3) :]
        told = found.texts([raw], 0, first)
        if told:
            assert told == [reads(orjson.loads(raw), first)], raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (CHAT.replace('"c"', '"\\u0063"').replace("T", "a"), "a"),  # a backslash outside the text
        (CHAT.replace('"T"', '"\\u0061"'), "a"),  # written in a way of its own
        (CHAT.replace("T", "turngate-probe"), "turngate-probe"),
        (CHAT.replace("T", "index"), "index"),  # the first place that looks like the text is another
        (CHAT.replace('"T"', '"a","content":"a"'), "a"),  # the last of two counts
    ],
)
def test_no_shape_is_made_where_none_can_be_proved(raw: str, text: str) -> None:
    assert reads(orjson.loads(raw), None) == text
    assert shape_of(raw, text, None, reads) is None


def test_a_number_that_stands_nowhere_makes_no_shape() -> None:
    assert shape_of(CHAT.replace("T", "a"), "a", 7, lambda value, number: "a") is None


def test_a_run_whose_events_never_look_alike_goes_without_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(
        raw: str, text: str, number: int | None, reads: Callable[[Any, int | None], str | None]
    ) -> Shape | None:
        made.append(raw)
        return shape_of(raw, text, number, reads)

    monkeypatch.setattr(runs, "shape_of", counted)
    assert _assembled([CHAT.replace("T", f"{n} ").replace('"id"', f'"n":{n},"id"') for n in range(200)]) == 200
    few = len(made)
    assert 0 < few < 8
    del made[:]
    alike = [CHAT.replace("T", f"{n} ").replace('"id"', f'"n":{n // 20},"id"') for n in range(200)]
    assert _assembled(alike) == 200
    assert len(made) >= 10, "shapes that pay are made again and again"


def _assembled(events: list[str]) -> int:
    assembler = Assembler(profile="openai", tools=compile_toolset({}))
    for at in range(0, len(events), 16):
        assembler.feed(at, events[at : at + 16])
    outcome = assembler.end(StreamEnd("eof", count=len(events)))
    assert outcome.text == "".join(f"{n} " for n in range(len(events)))
    return outcome.delta_count
