"""What one stream may hold: beyond any bound it is a finding, never an exception and never a record too large."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from turngate.domain.stream import Assembler, Limits, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.rawjson import slice_at

TOOLS = compile_toolset({"any": True})


def judged(profile: str, events: Sequence[object], limits: Limits | None = None) -> Outcome:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    assembler = Assembler(profile=profile, tools=TOOLS, limits=limits or Limits())
    for seq, text in enumerate(texts):
        assembler.feed(seq, [text])
    return assembler.end(StreamEnd("eof", count=len(texts)))


def codes(outcome: Outcome, severity: str = "error") -> set[str]:
    return {finding.code for finding in outcome.findings if finding.severity == severity}


def chunk(delta: object, finish: str | None = None, **beside: object) -> dict[str, object]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **beside}


def call(ident: str, name: str = "any") -> dict[str, object]:
    entry = {"index": 0, "id": ident, "function": {"name": name, "arguments": "{}"}}
    return chunk({"tool_calls": [entry]})


HELLO = chunk({"content": "hello"})
STOP = chunk({}, "stop")
CALLS = chunk({}, "tool_calls")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [63, 64, 500, 1000, 1022])
def test_what_is_kept_verbatim_has_a_depth(depth: int) -> None:
    """1,024 levels are as many as can be parsed at all; fewer can be written again."""
    kept = f'{{"x":{nested(depth)}}}'
    thought = '{"type":"message_start","message":{"id":"m","content":[]}}'
    result = f'{{"type":"web_search_tool_result","content":{kept}}}'
    opaque = f'{{"type":"content_block_start","index":0,"content_block":{result}}}'
    citation = f'{{"type":"content_block_delta","index":1,"delta":{{"type":"citations_delta","citation":{kept}}}}}'
    text = '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}'
    for inside, events in ((1, [opaque]), (0, [text, citation])):
        outcome = judged("anthropic", [thought, *events])
        assert ("too_large" in codes(outcome)) == (depth + inside + 1 > 64), events


@pytest.mark.parametrize("depth", [63, 64, 500, 1000, 1022])
def test_usage_has_a_depth(depth: int) -> None:
    """Also what is put together from several events, and also behind a gap, where only outcomes are believed."""
    kept = f'{{"x":{nested(depth)}}}'
    outcome = judged("openai", [HELLO, json.dumps(STOP)[:-1] + f',"usage":{kept}}}'])
    fits = depth < 64
    assert (outcome.verdict, outcome.usage_raw) == (("commit", kept) if fits else ("blocked", None))
    start = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}
    again = f'{{"type":"message_delta","delta":{{}},"usage":{kept}}}'
    assembler = Assembler(profile="anthropic", tools=TOOLS)
    assembler.feed(0, [json.dumps(start)])
    assembler.feed(2, [again])
    behind_a_gap = assembler.end(StreamEnd("eof", count=3))
    assert codes(behind_a_gap) >= {"missing_events"}
    for outcome in (behind_a_gap, judged("anthropic", [start, again])):
        assert ("too_large" in codes(outcome)) != fits
        assert (outcome.usage or {}).keys() == ({"input_tokens", "x"} if fits else {"input_tokens"})
        assert outcome.usage_raw is not None


def test_brackets_in_text_are_no_depth() -> None:
    usage = {"usage": {"note": nested(200)}}
    assert judged("openai", [chunk({"content": nested(5000)}), {**STOP, **usage}]).verdict == "commit"


@pytest.mark.parametrize("depth", [10, 900, 1020])
def test_the_text_of_a_value_is_found_at_any_depth(depth: int) -> None:
    deep = f'{{"a":["]}}\\"{{",{nested(depth)}]}}'
    text = f'{{"before":{deep},"here":{deep},"list":[{deep},2]}}'
    assert slice_at(text, ("here",)) == deep
    assert slice_at(text, ("list", 1)) == "2"


def test_usage_has_a_size() -> None:
    fits, large = ({"usage": {"x": "y" * length}} for length in (80, 100))
    limits = Limits(usage_characters=90)
    assert judged("openai", [HELLO, {**STOP, **fits}], limits).verdict == "commit"
    assert codes(judged("openai", [HELLO, {**STOP, **large}], limits)) == {"too_large"}
    start = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"a": "y" * 40}}}
    more = [{"type": "message_delta", "delta": {}, "usage": {f"k{n}": "y" * 20}} for n in range(2)]
    assert "too_large" not in codes(judged("anthropic", [start, more[0]], limits))
    assert "too_large" in codes(judged("anthropic", [start, *more], limits))


def test_the_identity_of_a_call_has_a_length() -> None:
    long = "c" * 257
    late = chunk({"tool_calls": [{"index": 0, "id": long, "function": {}}]})
    assert judged("openai", [call(long[1:]), CALLS]).verdict == "commit"
    for profile, events in {
        "openai": [call(long), CALLS],
        "openai-compat": [call("", "any"), late, CALLS],
        "anthropic": [
            {"type": "message_start", "message": {"id": "m", "content": []}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "server_tool_use", "id": "s", "name": long, "input": {}}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ],
    }.items():  # fmt: skip
        outcome = judged(profile, events)
        assert (outcome.verdict, codes(outcome)) == ("blocked", {"too_large"}), profile


def test_no_preview_holds_an_identity_that_is_too_long() -> None:
    assembler = Assembler(profile="openai", tools=TOOLS)
    assert assembler.feed(0, [json.dumps(call("c" * 257))]) == ()


def test_a_response_id_that_no_record_holds_is_left_out() -> None:
    outcome = judged("openai", [{**HELLO, "id": "r" * 257}, {**STOP, "id": "r" * 257}])
    assert (outcome.verdict, outcome.handle, codes(outcome, "note")) == ("commit", None, {"too_large"})
    outcome = judged("openai", [{**HELLO, "id": "r" * 256}, {**STOP, "id": "r" * 256}])
    assert (outcome.verdict, outcome.handle) == ("commit", "r" * 256)


def test_what_a_refusal_says_counts_as_text() -> None:
    events = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "no " * 10}}},
        {"type": "message_stop"},
    ]
    assert judged("anthropic", events, Limits(turn_bytes=30)).verdict == "commit"
    assert codes(judged("anthropic", events, Limits(turn_bytes=29))) == {"too_large"}


def test_a_stream_has_so_many_events() -> None:
    events = [HELLO, call("c"), CALLS, "[DONE]"]
    assert judged("openai", events, Limits(events=4)).verdict == "commit"
    assert codes(judged("openai", events, Limits(events=3))) == {"too_large"}


def test_a_turn_has_so_many_blocks() -> None:
    events = [{"index": n, "id": f"c{n}", "function": {"name": "any", "arguments": "{}"}} for n in range(4)]
    for most, verdict in ((4, "commit"), (3, "blocked")):
        outcome = judged("openai", [chunk({"tool_calls": events}), CALLS], Limits(blocks=most))
        assert (outcome.verdict, "too_large" in codes(outcome)) == (verdict, verdict == "blocked")
