"""The profiles `openai` and `openai-compat`: stop words, reasoning, whole messages, and what counts as nothing."""

from __future__ import annotations

import json

import pytest

from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset

Json = dict[str, object]
TOOLS = compile_toolset({"alpha": {"type": "object"}})
BOTH = ("openai", "openai-compat")
COMPAT = "openai-compat"


def chunk(delta: Json | None = None, finish: str | None = None, **choice: object) -> Json:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **choice}]}


def call(**entry: object) -> Json:
    return chunk({"tool_calls": [entry]})


WHOLE = call(index=0, id="call_1", type="function", function={"name": "alpha", "arguments": "{}"})


def judge(profile: str, *events: Json | str, finish: str | None = None) -> Outcome:
    assembler = Assembler(profile=profile, tools=TOOLS)
    whole = [*events, *([chunk({}, finish)] if finish else [])]
    assembler.feed(0, [event if isinstance(event, str) else json.dumps(event) for event in whole])
    return assembler.end(StreamEnd("eof"))


def codes(outcome: Outcome, severity: str = "error") -> set[str]:
    return {finding.code for finding in outcome.findings if finding.severity == severity}


# -- stop words ----------------------------------------------------------------------------------------------

STRICT = {
    "stop": "complete",
    "length": "truncated",
    "content_filter": "filtered",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
SERVERS = {
    **STRICT,
    "eos": "complete",
    "model_length": "truncated",
    "abort": "error",
    "error": "error",
    "insufficient_system_resource": "error",
}
WORDS = [*SERVERS, "load", "unload", "STOP", "tool_use"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("profile", BOTH)
def test_every_stop_word_has_its_class(profile: str, word: str) -> None:
    known = STRICT if profile == "openai" else SERVERS
    alone = judge(profile, chunk({"content": "hei"}), finish=word)
    wanted = known.get(word, "unknown")
    assert alone.stop == (wanted if wanted != "tool_calls" else "unknown")
    assert (alone.verdict == "commit") == (wanted in ("complete", "truncated", "filtered"))
    beside = judge(profile, WHOLE, finish=word)
    runs = word == "tool_calls" or (profile == COMPAT and wanted in ("tool_calls", "complete"))
    assert bool(beside.calls) == runs
    contradicts = wanted == "complete" and not runs
    assert beside.stop == ("tool_calls" if runs else "unknown" if contradicts else wanted)


def test_the_legacy_label_beside_calls_of_the_present_form() -> None:
    """It stands for one call without an id; only among dialects it is taken for the present label, and marked."""
    assert codes(judge("openai", WHOLE, finish="function_call")) == {"wrong_terminal_reason"}
    assert codes(judge(COMPAT, WHOLE, finish="function_call"), "tolerated") == {"wrong_terminal_reason"}


# -- reasoning -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_in_a_field_of_its_own(field: str) -> None:
    events = (chunk({field: "hm"}), chunk({field: " ja"}), WHOLE)
    outcome = judge(COMPAT, *events, finish="tool_calls")
    assert (outcome.verdict, outcome.reasoning, outcome.text) == ("commit", "hm ja", "")
    assert codes(outcome, "tolerated") == {"unknown_event"}
    assert codes(judge("openai", *events, finish="tool_calls")) == {"unknown_event"}


def test_of_two_reasoning_fields_in_one_delta_one_counts() -> None:
    outcome = judge(COMPAT, chunk({"reasoning": "hm", "reasoning_content": "hm"}), finish="stop")
    assert outcome.reasoning == "hm"


@pytest.mark.parametrize("thinking", ["hm", [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]])
def test_a_thinking_part_among_the_content(thinking: object) -> None:
    parts = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": "hei"}]
    outcome = judge(COMPAT, chunk({"content": parts}), WHOLE, finish="tool_calls")
    assert (outcome.verdict, outcome.reasoning, outcome.text) == ("commit", "hm", "hei")
    assert [block.kind for block in outcome.blocks] == ["reasoning", "text", "tool_call"]


@pytest.mark.parametrize("thinking", [None, 7, [{"type": "image"}], ["hm"]])
def test_a_thinking_part_of_another_form_blocks_beside_a_call(thinking: object) -> None:
    event = chunk({"content": [{"type": "thinking", "thinking": thinking}]})
    assert codes(judge(COMPAT, event, WHOLE, finish="tool_calls")) == {"unknown_event"}


# -- what counts as nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{}, {"name": "", "arguments": ""}, {"name": None, "arguments": None}])
def test_an_empty_function_call_field_is_no_call(value: Json) -> None:
    outcome = judge(COMPAT, chunk({"content": "hei", "function_call": value}), finish="stop")
    assert (outcome.verdict, outcome.text) == ("commit", "hei")


@pytest.mark.parametrize("value", [{"name": "alpha"}, {"name": "", "arguments": "{}"}, "alpha"])
@pytest.mark.parametrize("profile", BOTH)
def test_a_function_call_has_no_id_and_never_runs(profile: str, value: object) -> None:
    outcome = judge(profile, chunk({"function_call": value}), finish="function_call")
    assert outcome.verdict == "blocked"
    assert "missing_identity" in codes(outcome)


@pytest.mark.parametrize("profile", BOTH)
def test_an_empty_usage_says_nothing_and_the_last_full_one_wins(profile: str) -> None:
    usages: list[object] = [{"total_tokens": 1}, {"total_tokens": 2}, {}, None]
    tail = [{"id": "r1", "choices": [], "usage": usage} for usage in usages]
    outcome = judge(profile, chunk({"content": "hei"}), chunk({}, "stop"), *tail, "[DONE]")
    assert (outcome.verdict, outcome.usage, outcome.usage_raw) == ("commit", {"total_tokens": 2}, '{"total_tokens": 2}')


@pytest.mark.parametrize("absent", ["", None])
def test_empty_and_null_identity_in_later_fragments_is_absent(absent: object) -> None:
    first = call(index=1, id="call_1", type="function", function={"name": "alpha", "arguments": '{"a"'})
    later = call(index=1, id=absent, type=absent, function={"name": absent, "arguments": ": 1}"})
    for profile in BOTH:
        outcome = judge(profile, first, later, finish="tool_calls")
        assert [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls] == [("call_1", "alpha", '{"a": 1}')]


# -- whole messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", BOTH)
def test_a_whole_message_that_no_delta_brought_is_not_committed_as_an_empty_turn(profile: str) -> None:
    whole = {"id": "r1", "choices": [{"index": 0, "message": {"content": "hei"}, "finish_reason": "stop"}]}
    outcome = judge(profile, whole)
    assert (outcome.verdict, codes(outcome)) == ("blocked", {"missing_events"})
    completion = {"id": "r1", "choices": [{"index": 0, "text": "hei", "finish_reason": "stop"}]}
    assert judge(profile, completion).verdict == "blocked"


@pytest.mark.parametrize("profile", BOTH)
def test_a_whole_message_after_its_deltas_repeats_them(profile: str) -> None:
    whole = {"id": "r1", "choices": [{"index": 0, "message": {"content": "hei"}, "finish_reason": "stop"}]}
    outcome = judge(profile, chunk({"content": "hei"}), whole)
    assert (outcome.verdict, outcome.text) == ("commit", "hei")


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        ({"type": "server_error"}, "ladder"),
        ({"type": "rate_limit_error", "code": "slow_down"}, "ladder"),
        ({"code": "rate_limit_exceeded"}, "ladder"),
        ({"code": "insufficient_quota"}, "never"),
        ({"code": "credit_balance_exhausted"}, "never"),
        ({"code": 402, "message": "x"}, "never"),
        ({"code": 403}, "never"),
        ({"code": 502, "message": "x"}, "ladder"),
        ({"type": "invalid_request_error", "code": "tool_use_failed"}, "ladder"),
        ("cut", "ladder"),
    ],
)
@pytest.mark.parametrize("profile", BOTH)
def test_what_an_error_says_of_a_retry(profile: str, error: object, retry: str) -> None:
    outcome = judge(profile, WHOLE, chunk({}, "tool_calls"), {"error": error}, "[DONE]")
    assert (outcome.verdict, outcome.retry, outcome.calls) == ("failed", retry, ())


def test_errors_of_servers_in_places_of_their_own() -> None:
    inside = chunk({}, "error", error={"code": 502, "message": "x"})
    groq: Json = {**chunk({}, None), "x_groq": {"id": "q", "error": "cut"}}
    older: Json = {"object": "error", "message": "x", "type": "BadRequestError", "code": 400}
    assert judge(COMPAT, WHOLE, inside).verdict == "failed"
    assert judge(COMPAT, WHOLE, groq, finish="tool_calls").verdict == "failed"
    assert judge(COMPAT, WHOLE, older, "[DONE]").retry == "never"
