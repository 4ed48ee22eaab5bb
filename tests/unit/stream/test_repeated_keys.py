"""An event that names a key twice has two meanings: readers take the first or the last."""

from __future__ import annotations

import json

import pytest

from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset

TOOLS = compile_toolset({"any": {"type": "object"}})


def chunk(delta: object, finish: str | None = None) -> str:
    return json.dumps({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def piece(arguments: str) -> str:
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})


CALL = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "any", "arguments": '{"a": "'}}]})
STREAM = [CALL, *(piece("x") for _ in range(40)), piece('"}'), chunk({}, "tool_calls")]


def judge(events: list[str], profile: str = "openai", frame: int = 16) -> Outcome:
    assembler = Assembler(profile=profile, tools=TOOLS)
    for at in range(0, len(events), frame):
        assembler.feed(at, events[at : at + frame])
    return assembler.end(StreamEnd("eof", count=len(events)))


def said(outcome: Outcome) -> set[tuple[str, str]]:
    return {(finding.code, finding.severity) for finding in outcome.findings}


def changed(at: int, old: str, new: str) -> list[str]:
    assert old in STREAM[at]
    return [*STREAM[:at], STREAM[at].replace(old, new, 1), *STREAM[at + 1 :]]


REPEATED = [
    (0, '"id": "c"', '"id": "d", "id": "c"'),
    (0, '"name": "any"', '"name": "any", "\\u006eame": "any"'),
    (1, '"index": 0, "function"', '"index": 1, "index": 0, "function"'),
    (20, '"arguments": "x"', '"arguments": "y", "arguments": "x"'),  # behind many that are written alike
    (35, '"choices"', '"choices": [], "choices"'),
    (42, '"delta": {}', '"delta": {"tool_calls": [{"index": 0}]}, "delta": {}'),
    (42, '"finish_reason"', '"finish_reason": "length", "finish_reason"'),
]


def test_without_any_the_stream_passes() -> None:
    outcome = judge(STREAM)
    assert (outcome.verdict, said(outcome)) == ("commit", set())


@pytest.mark.parametrize("frame", [1, 16, 100])
@pytest.mark.parametrize("place", REPEATED)
def test_a_key_twice_blocks(place: tuple[int, str, str], frame: int) -> None:
    outcome = judge(changed(*place), frame=frame)
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert ("duplicate_key", "error") in said(outcome)


@pytest.mark.parametrize("at", [0, 20])
def test_among_dialects_the_same_key_with_the_same_value_is_marked(at: int) -> None:
    twice = changed(at, '"id": "r"', '"id": "r", "id": "r"')
    assert said(judge(twice)) == {("duplicate_key", "error")}
    outcome = judge(twice, "openai-compat")
    assert (outcome.verdict, said(outcome)) == ("commit", {("duplicate_key", "tolerated")})
    one_and_true = changed(at, '"index": 0, "delta"', '"index": false, "index": 0, "delta"')
    assert said(judge(one_and_true, "openai-compat")) == {("duplicate_key", "error")}


def test_numbers_and_characters_written_in_another_way_are_no_repeats() -> None:
    odd = STREAM[1].replace('"id"', '"n": [1e3, 1.50, 12345678901234567890123, "\\u00e9", "é", "\\/"], "id"')
    assert said(judge([CALL, odd, *STREAM[2:]])) == set()


@pytest.mark.parametrize("depth", [300, 900, 990, 1_015])
def test_a_key_twice_blocks_also_where_the_event_is_nested_deeper_than_keys_can_be_counted(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    events = changed(1, "{", f'{{"junk":{nested},"id":"a","id":"b",')
    assert said(judge(events)) & {("duplicate_key", "error"), ("too_large", "error")}
    assert judge(events).verdict == "blocked"
