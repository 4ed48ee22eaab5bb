"""The profile `anthropic`: every event, block, delta and stop word of its API versions, and what none of them knows."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.anthropic.normaliser_tables import DELTAS, ERROR_CLASSES, KINDS, STOPS
from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset

Json = dict[str, object]
TOOLS = compile_toolset({"alpha": {"type": "object"}})


def start(index: int = 0, **block: object) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int = 0, **fields: object) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **more: object) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {"output_tokens": 2}}


BEGIN: Json = {"type": "message_start", "message": {"id": "m1", "content": [], "usage": {"input_tokens": 1}}}
END: Json = {"type": "message_stop"}
CALL = [start(9, type="tool_use", id="toolu_1", name="alpha", input={}), stop(9)]


def judge(*events: Json, reason: str | None = "end_turn") -> Outcome:
    assembler = Assembler(profile="anthropic", tools=TOOLS)
    whole = [BEGIN, *events, *([ending(reason), END] if reason else [])]
    assembler.feed(0, [json.dumps(event) for event in whole])
    return assembler.end(StreamEnd("eof"))


def errors(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings if finding.severity == "error"}


# -- stop words ----------------------------------------------------------------------------------------------

STOP_CLASSES = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    "compaction": "paused",
    "refusal": "filtered",
    "tool_use": "tool_calls",
}


def test_the_stop_words_are_those_of_the_api() -> None:
    assert dict(STOPS) == STOP_CLASSES


@pytest.mark.parametrize("word", [*STOP_CLASSES, "safety"])
def test_every_stop_word_has_its_class_and_only_one_lets_a_call_run(word: str) -> None:
    alone = judge(start(type="text", text="hei"), stop(), reason=word)
    runnable = word in STOP_CLASSES and word != "tool_use"
    assert (alone.verdict == "commit") == runnable
    if runnable:
        assert alone.stop == STOP_CLASSES[word]
        assert alone.continues == (STOP_CLASSES[word] == "paused")
    beside = judge(*CALL, reason=word)
    assert bool(beside.calls) == (word == "tool_use")
    assert word == "tool_use" or errors(beside) == {"wrong_terminal_reason"}


def test_no_stop_reason_is_no_terminal() -> None:
    assembler = Assembler(profile="anthropic", tools=TOOLS)
    assembler.feed(0, [json.dumps(event) for event in (BEGIN, *CALL, ending(None), END)])
    assert assembler.end(StreamEnd("eof")).verdict == "unknown"


def test_several_message_deltas_overlay_usage_and_may_repeat_the_reason() -> None:
    outcome = judge(*CALL, ending("tool_use"), reason="tool_use")
    assert outcome.verdict == "commit"
    assert outcome.usage == {"input_tokens": 1, "output_tokens": 2}
    assert "duplicate_terminal" in errors(judge(*CALL, ending("end_turn"), reason="tool_use"))


# -- blocks --------------------------------------------------------------------------------------------------

OPAQUE = (
    "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
    "advisor_tool_result", "mcp_tool_result", "container_upload", "compaction", "fallback",
)  # fmt: skip


@pytest.mark.parametrize("word", OPAQUE)
def test_an_opaque_block_is_kept_verbatim_and_lets_a_call_run(word: str) -> None:
    block = {"type": word, "payload": {"n": 1.0, "s": "æ"}}
    outcome = judge(start(**block), stop(), *CALL, reason="tool_use")
    assert errors(outcome) == set()
    assert [block.kind for block in outcome.blocks] == ["server_tool_result", "tool_call"]
    assert outcome.blocks[0].data == json.dumps(block)


@pytest.mark.parametrize("word", ["server_tool_use", "mcp_tool_use"])
def test_a_server_tool_is_no_client_call_and_keeps_its_streamed_input(word: str) -> None:
    events = (
        start(type=word, id="srvtoolu_1", name="search", input={}),
        delta(type="input_json_delta", partial_json='{"q": '),
        delta(type="input_json_delta", partial_json="1.0}"),
        stop(),
    )
    outcome = judge(*events)
    assert (outcome.verdict, outcome.calls) == ("commit", ())
    assert outcome.blocks[0].kind == "server_tool_call"
    assert '"input": {"q": 1.0}' in (outcome.blocks[0].data or "")
    assert errors(judge(*events, reason="tool_use")) == {"wrong_terminal_reason"}
    assert [call.call_id for call in judge(*events, *CALL, reason="tool_use").calls] == ["toolu_1"]


@pytest.mark.parametrize("reason", ["end_turn", "pause_turn", "max_tokens"])
def test_a_server_tool_whose_input_was_cut_is_not_committed(reason: str) -> None:
    events = (
        start(type="server_tool_use", id="srvtoolu_1", name="search", input={}),
        delta(type="input_json_delta", partial_json='{"q": "Be'),
        stop(),
    )
    outcome = judge(*events, reason=reason)
    assert (outcome.verdict, errors(outcome)) == ("blocked", {"malformed_json"})
    assert judge(*events, reason="refusal").verdict == "commit"


def test_thinking_keeps_its_last_signature_also_without_text() -> None:
    outcome = judge(
        start(type="thinking", thinking="", signature=""),
        delta(type="signature_delta", signature="one"),
        delta(type="signature_delta", signature="two"),
        stop(),
        start(1, type="redacted_thinking", data="c2VjcmV0"),
        stop(1),
        *CALL,
        reason="tool_use",
    )
    assert [(b.kind, b.text, b.signature) for b in outcome.blocks[:1]] == [("thinking", "", "two")]
    assert outcome.blocks[1].data == '{"type": "redacted_thinking", "data": "c2VjcmV0"}'


@pytest.mark.parametrize(("word", "blocked"), [("sparkle", True), ("tool_offer", True), ("new_tool_result", False)])
def test_an_unknown_block_blocks_only_beside_a_call_unless_it_may_be_one(word: str, blocked: bool) -> None:
    beside = judge(start(type=word), stop(), *CALL, reason="tool_use")
    assert (beside.verdict == "blocked") == blocked
    alone = judge(start(type=word), stop())
    assert (alone.verdict == "commit") == (word != "tool_offer")


# -- deltas --------------------------------------------------------------------------------------------------

DELTAS_BY_BLOCK = {
    "text_delta": ("text", {"text": "hei"}),
    "citations_delta": ("text", {"citation": {"cited_text": "x"}}),
    "thinking_delta": ("thinking", {"thinking": "hm"}),
    "signature_delta": ("thinking", {"signature": "s"}),
    "input_json_delta": ("tool_use", {"partial_json": "{}"}),
    "compaction_delta": ("compaction", {"content": "short"}),
}


def test_the_delta_types_are_those_of_the_api() -> None:
    assert set(DELTAS) == set(DELTAS_BY_BLOCK)


@pytest.mark.parametrize("word", DELTAS_BY_BLOCK)
@pytest.mark.parametrize("block", [*KINDS, "web_search_tool_result"])
def test_a_delta_belongs_to_blocks_of_its_kind(word: str, block: str) -> None:
    own, fields = DELTAS_BY_BLOCK[word]
    outcome = judge(
        start(type=block, id="toolu_0", name="alpha", input={}, text="", thinking=""),
        delta(type=word, **fields),
        stop(),
        *CALL,
        reason="tool_use",
    )
    same = KINDS.get(block, "server_tool_result") == KINDS[own]
    input_of_server = word == "input_json_delta" and block in ("server_tool_use", "mcp_tool_use")
    assert errors(outcome) == (set() if same or input_of_server else {"missing_slot"})


def test_an_unknown_delta_blocks_beside_a_call() -> None:
    events = (start(type="text", text=""), delta(type="sparkle_delta", x=1), stop())
    assert judge(*events).verdict == "commit"
    assert errors(judge(*events, *CALL, reason="tool_use")) == {"unknown_event"}


# -- events --------------------------------------------------------------------------------------------------


def test_ping_may_stand_anywhere() -> None:
    ping: Json = {"type": "ping"}
    events = [ping, BEGIN]
    for event in (*CALL, ending("tool_use"), END):
        events += [ping, event]
    assembler = Assembler(profile="anthropic", tools=TOOLS)
    assembler.feed(0, [json.dumps(event) for event in [*events, ping]])
    assert len(assembler.end(StreamEnd("eof")).calls) == 1


@pytest.mark.parametrize("word", ["sparkle", "content_block_patch", ""])
def test_an_unknown_event_blocks_beside_a_call(word: str) -> None:
    assert judge({"type": word}).verdict == "commit"
    assert errors(judge({"type": word}, *CALL, reason="tool_use")) == {"unknown_event"}


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_an_error_event_overrides_everything_before_it(place: int) -> None:
    events = [*CALL, ending("tool_use"), END]
    events.insert(place + 1, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}})
    outcome = judge(*events, reason=None)
    assert (outcome.verdict, outcome.retry, outcome.calls) == ("failed", "ladder", ())


SPENT: Json = {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        *(({"type": word}, "never") for word in ERROR_CLASSES),
        ({"type": "overloaded_error"}, "ladder"),
        ({"type": "api_error"}, "ladder"),
        ({"type": "timeout_error"}, "ladder"),
        ({"type": "rate_limit_error"}, "ladder"),
        ({"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}}, "ladder"),
        (SPENT, "never"),
        ({**SPENT, "details": {"error_code": "contract_spend_limit_reached"}}, "never"),
        ({"type": "rate_limit_error", "details": {"error_code": ["x"]}}, "ladder"),
        ({}, "ladder"),
    ],
)
def test_what_an_error_says_of_a_retry(error: Json, retry: str) -> None:
    assert judge({"type": "error", "error": error}, reason=None).retry == retry
