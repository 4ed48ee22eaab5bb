"""The profile `mistral`: every stop word, content chunk and form of a call, and what it refuses."""

from __future__ import annotations

import json
from typing import cast

import pytest

from turngate.domain.adapters.mistral.normaliser_tables import OPAQUE_CHUNKS, STOPS
from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset

TOOLS = compile_toolset({name: {"type": "object"} for name in ("alpha", "beta")})
Json = dict[str, object]


def chunk(delta: Json | None = None, finish: str | None = None, raw: str | None = None) -> str:
    text = json.dumps(delta or {}) if raw is None else raw
    return f'{{"id": "r1", "choices": [{{"index": 0, "delta": {text}, "finish_reason": {json.dumps(finish)}}}]}}'


def call(
    arguments: object = "{}",
    index: int | None = None,
    ident: str | None = "Ab3dE6gH9",
    name: str | None = "alpha",
    finish: str | None = None,
) -> str:
    function: Json = {"name": name, "arguments": arguments}
    entry: Json = {"function": function, "type": "function"}
    if index is not None:
        entry["index"] = index
    if ident is not None:
        entry["id"] = ident
    return chunk({"tool_calls": [entry]}, finish)


def content(*chunks: Json | str) -> str:
    return chunk({"content": list(chunks)})


def judge(*events: str, finish: str | None = "tool_calls") -> Outcome:
    assembler = Assembler(profile="mistral", tools=TOOLS)
    assembler.feed(0, [*events, chunk(finish=finish)] if finish else events)
    return assembler.end(StreamEnd("eof"))


def errors(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings if finding.severity == "error"}


@pytest.mark.parametrize("word", [*STOPS, "", "cancelled"])
def test_every_stop_word_has_its_class(word: str) -> None:
    outcome = judge(chunk({"content": "hei"}), finish=word)
    wanted = {"stop": "complete", "length": "truncated", "model_length": "truncated", "error": "error"}
    assert outcome.stop == wanted.get(word, "unknown")
    assert (outcome.verdict == "commit") == (word in ("stop", "length", "model_length"))
    with_call = judge(call(), finish=word)
    assert bool(with_call.calls) == (word == "tool_calls")


def test_an_error_stop_is_the_providers_failure() -> None:
    outcome = judge(finish="error")
    assert (outcome.verdict, errors(outcome)) == ("failed", {"provider_error"})


def test_an_error_object_fails_the_turn_whatever_came_before() -> None:
    error = json.dumps({"object": "error", "message": "x", "type": "service_unavailable", "code": "3505"})
    for event in (error, json.dumps({"error": {"type": "server_error"}})):
        outcome = judge(call(finish="tool_calls"), event, finish=None)
        assert (outcome.verdict, outcome.calls) == ("failed", ())


def test_whole_calls_without_an_index_are_told_apart_by_id() -> None:
    outcome = judge(call('{"a": 1}', ident="a"), call('{"b": 2}', ident="b", name="beta"))
    assert [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls] == [
        ("a", "alpha", '{"a": 1}'),
        ("b", "beta", '{"b": 2}'),
    ]
    both = json.loads(call(ident="a"))
    delta = both["choices"][0]["delta"]
    delta["tool_calls"] += json.loads(call(ident="b"))["choices"][0]["delta"]["tool_calls"]
    assert [c.call_id for c in judge(json.dumps(both)).calls] == ["a", "b"]


def test_a_call_and_its_finish_may_share_a_chunk() -> None:
    assert len(judge(call(index=0, finish="tool_calls"), "[DONE]", finish=None).calls) == 1


def test_fragments_go_by_index_and_an_empty_name_names_nothing() -> None:
    outcome = judge(call("", 0), call('{"a": ', 0, None, ""), call("1}", 0, "null", ""))
    assert [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls] == [("Ab3dE6gH9", "alpha", '{"a": 1}')]


@pytest.mark.parametrize("ident", [None, "", "null"])
@pytest.mark.parametrize(("index", "code"), [(0, "missing_identity"), (None, "missing_slot")])
def test_no_id_is_no_identity(ident: str | None, index: int | None, code: str) -> None:
    outcome = judge(call(index=index, ident=ident))
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert code in errors(outcome)


def test_one_index_and_two_ids_collide() -> None:
    outcome = judge(call(index=0, ident="a"), call(index=0, ident="b"))
    assert (outcome.verdict, errors(outcome)) == ("blocked", {"identity_collision", "trailing_json"})


def test_a_call_repeated_without_an_index_does_not_run_twice_nor_once() -> None:
    outcome = judge(call(), call())
    assert (outcome.verdict, errors(outcome)) == ("blocked", {"trailing_json"})


def test_object_arguments_keep_their_exact_text() -> None:
    entry = '{"id": "a", "function": {"name": "alpha", "arguments": {"n":  123456789012345678901, "é": 1.0}}}'
    (only,) = judge(chunk(raw=f'{{"tool_calls": [{entry}]}}')).calls
    assert only.arguments_raw == '{"n":  123456789012345678901, "é": 1.0}'
    assert only.arguments == {"n": 123456789012345678901, "é": 1.0}


@pytest.mark.parametrize("arguments", ["", None, [1], 3, '{"a"'])
def test_arguments_that_are_no_object_text_are_malformed(arguments: object) -> None:
    outcome = judge(call(arguments))
    assert (outcome.verdict, errors(outcome)) == ("blocked", {"malformed_json"})


def test_thinking_text_and_references_become_blocks_in_order() -> None:
    reference = {"type": "reference", "reference_ids": [3, "x"]}
    outcome = judge(
        content({"type": "thinking", "thinking": [{"type": "text", "text": "12"}], "closed": True}),
        content({"type": "thinking", "thinking": [{"type": "text", "text": "*12"}, reference], "signature": "s=="}),
        content({"type": "text", "text": "1"}),
        chunk({"content": "44"}),
        content(reference, {"type": "text", "text": "!"}),
        finish="stop",
    )
    assert (outcome.verdict, outcome.reasoning, outcome.text) == ("commit", "12*12", "144!")
    thinking, text = outcome.blocks
    assert (thinking.kind, thinking.signature, thinking.citations) == ("thinking", "s==", (json.dumps(reference),))
    assert (text.kind, text.citations) == ("text", (json.dumps(reference),))


def test_a_reference_before_any_text_begins_the_text() -> None:
    outcome = judge(content({"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}), finish="stop")
    assert [(b.kind, b.text, len(b.citations)) for b in outcome.blocks] == [("text", "a", 1)]


@pytest.mark.parametrize("word", sorted(OPAQUE_CHUNKS))
def test_opaque_chunks_are_kept_verbatim(word: str) -> None:
    part = {"type": word, word: {"url": "u", "n": 1.0}}
    outcome = judge(content({"type": "text", "text": "a"}, part, {"type": "text", "text": "b"}), finish="stop")
    assert [b.kind for b in outcome.blocks] == ["text", "server_tool_result", "text"]
    assert outcome.blocks[1].data == json.dumps(part)


@pytest.mark.parametrize("part", [{"type": "sparkle"}, {"type": "thinking", "thinking": [{"type": "sparkle"}]}, 3])
def test_an_unknown_chunk_blocks_beside_a_call_alone(part: object) -> None:
    event = content(cast("Json", part))
    assert (judge(call(), event).verdict, errors(judge(call(), event))) == ("blocked", {"unknown_event"})
    assert judge(chunk({"content": "a"}), event, finish="stop").verdict == "commit"


def test_an_unknown_chunk_that_may_be_a_call_counts_as_one() -> None:
    outcome = judge(content({"type": "tool_call_2"}), finish="stop")
    assert (outcome.verdict, "unknown_event" in errors(outcome)) == ("blocked", True)


def test_two_choices_of_text_are_alternatives() -> None:
    second = chunk({"content": "b"}, "stop").replace('"index": 0', '"index": 1')
    assert errors(judge(chunk({"content": "a"}), second, finish="stop")) == {"multiple_choices"}


def test_fields_of_mistral_that_carry_nothing_are_passed_over() -> None:
    outcome = judge(chunk({"index": 0, "metadata": {"a": 1}, "content": ""}), call(), chunk({"content": None}))
    assert (outcome.verdict, outcome.findings) == ("commit", ())
