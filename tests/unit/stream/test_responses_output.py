"""The Responses normaliser: what the provider or the client runs, and the end of the response."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.testing.responses_events import (
    A,
    Json,
    call,
    codes,
    created,
    done,
    end,
    judge,
    message,
    numbered,
    ran,
    reasoning,
    stream,
    whole,
)

CONTAINER: Json = {"environment": {"type": "container_reference", "container_id": "cntr_1"}}
SERVER: list[Json] = [
    {"type": "web_search_call", "status": "searching"},
    {"type": "file_search_call", "status": "completed", "queries": ["q"], "results": None},
    {"type": "code_interpreter_call", "code": "1", "container_id": "cntr_1", "outputs": []},
    {"type": "image_generation_call", "status": "generating", "result": "iVBORw0KGgo="},
    {"type": "mcp_call", "name": "look", "arguments": A, "status": "failed", "error": "no"},
    {"type": "program", "call_id": "p1", "code": "x", "fingerprint": "gA+/=="},
    {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}, **CONTAINER},
    {"type": "tool_search_call", "execution": "server", "call_id": "t1"},
]
RESULTS: list[Json] = [
    {"type": "mcp_list_tools", "tools": []},
    {"type": "shell_call_output", "call_id": "s1", "output": []},
    {"type": "program_output", "call_id": "p1", "result": "1"},
    {"type": "tool_search_output", "call_id": "t1", "tools": []},
    {"type": "compaction", "encrypted_content": "gA"},
]
CLIENT: list[Json] = [
    {"type": "custom_tool_call", "call_id": "x1", "name": "look", "input": A},
    {"type": "custom_tool_call", "call_id": "x1", "name": "grep", "input": "not json"},
    {"type": "computer_call", "call_id": "x1", "action": {"type": "click"}},
    {"type": "local_shell_call", "call_id": "x1", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "shell_call", "call_id": "x1", "action": {"commands": ["ls"]}},
    {"type": "shell_call", "call_id": "x1", "environment": {"type": "local"}},
    {"type": "apply_patch_call", "call_id": "x1", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "tool_search_call", "execution": "client", "call_id": "x1"},
    {"type": "tool_search_call", "call_id": "x1"},
]


@pytest.mark.parametrize("item", SERVER + RESULTS, ids=lambda item: str(item["type"]))
def test_what_the_provider_runs_is_kept_verbatim_and_never_run(item: Json) -> None:
    outcome = judge(stream(whole(0, item, status="in_progress"), message(1)))
    kind = "server_tool_call" if item in SERVER else "server_tool_result"
    assert [(b.kind, b.data) for b in outcome.blocks] == [(kind, json.dumps(item)), ("text", None)]
    assert (outcome.verdict, outcome.stop, outcome.calls, outcome.findings) == ("commit", "complete", (), ())
    assert ran(judge(stream(whole(0, item), call(1)))) == [("c1", "look", A)]


@pytest.mark.parametrize("item", CLIENT, ids=lambda item: str(item["type"]))
def test_a_call_in_a_form_that_is_not_run_here_blocks_its_turn(item: Json) -> None:
    outcome = judge(stream(message(), whole(1, item)))
    assert (outcome.verdict, outcome.stop) == ("blocked", "tool_calls")
    assert "unknown_tool" in codes(outcome)
    assert "unknown_tool" in codes(judge(stream(call(), whole(1, item))))


def test_input_of_a_custom_tool_is_compared_too() -> None:
    item: Json = {"type": "custom_tool_call", "call_id": "x1", "name": "look", "input": A}
    delta = {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "{"}
    begin, over = whole(0, item, input="")
    assert "missing_events" in codes(judge(stream(begin, delta, over)))


def test_an_approval_request_pauses_and_runs_nothing() -> None:
    item: Json = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "look", "arguments": A, "server_label": "s"}
    outcome = judge(stream(whole(0, item), last=end(output=[item])))
    assert (outcome.verdict, outcome.stop, outcome.continues) == ("commit", "paused", True)
    assert [(b.kind, b.data) for b in outcome.blocks] == [("server_tool_call", json.dumps(item))]
    outcome = judge(stream(whole(0, item), call(1)))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["wrong_terminal_reason"])


@pytest.mark.parametrize(
    ("item", "verdict"), [("robot_tool_call", "blocked"), ("robot_call_output", "commit"), ("hologram", "commit")]
)
def test_an_item_of_an_unknown_type_is_kept_or_counts_as_a_call(item: str, verdict: str) -> None:
    outcome = judge(stream(message(), whole(1, {"type": item})))
    assert outcome.verdict == verdict
    assert "unknown_event" in codes(outcome, "error" if verdict == "blocked" else "note")
    assert codes(judge(stream(call(), whole(1, {"type": item}))))[-1] in ("unknown_event", "unknown_tool")


def test_a_call_named_parallel_is_a_tool_that_nobody_declared() -> None:
    assert codes(judge(stream(call(name="parallel", arguments='{"tool_uses":[]}')))) == ["unknown_tool"]


def test_items_and_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ITEMS_MAX", 2)
    assert codes(judge(stream(message(0), message(1, ident="m2"), message(2, ident="m3")[-1]))) == ["too_large"]
    monkeypatch.setattr(tables, "PARTS_MAX", 1)
    content = [{"type": "output_text", "text": text} for text in ("Hello.", "More")]
    assert codes(judge(stream(message(content=content)))) == ["too_large"]


@pytest.mark.parametrize(
    ("status", "reason", "stop"),
    [
        ("completed", None, "complete"),
        ("incomplete", "max_output_tokens", "truncated"),
        ("incomplete", "max_messages", "truncated"),
        ("incomplete", "content_filter", "filtered"),
        ("incomplete", "steered", "paused"),
        ("incomplete", "weather", "unknown"),
        ("incomplete", None, "unknown"),
    ],
)
def test_stop_classes(status: str, reason: str | None, stop: str) -> None:
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    outcome = judge(stream(message(), last=end(status, **details)))  # type: ignore[arg-type]
    assert outcome.stop == stop
    assert outcome.stop_value == (f"{status}/{reason}" if reason else status)
    assert outcome.verdict == ("blocked" if stop == "unknown" else "commit")
    outcome = judge(stream(call(), last=end(status, **details)))  # type: ignore[arg-type]
    assert (outcome.verdict == "commit") == (status == "completed")
    assert outcome.stop == ("tool_calls" if status == "completed" else stop)


@pytest.mark.parametrize("status", ["in_progress", "queued", "incomplete", "", None, 1])
def test_a_completed_event_with_another_status_is_not_believed(status: object) -> None:
    last = {"type": "response.completed", "response": {"id": "resp_1", "status": status}}
    for inner in (call(), message()):
        outcome = judge(stream(inner, last=last))
        assert (outcome.verdict, codes(outcome)) == ("blocked", ["wrong_terminal_reason"])
    assert judge(stream(call(), last={"type": "response.completed"})).verdict == "blocked"


def test_completed_with_details_of_incompleteness_is_not_believed() -> None:
    last = end(incomplete_details={"reason": "max_output_tokens"})
    assert codes(judge(stream(call(), last=last))) == ["wrong_terminal_reason"]


@pytest.mark.parametrize(
    ("last", "retry"),
    [
        (end("failed", error={"code": "server_error"}), "ladder"),
        (end("failed", error={"code": "rate_limit_exceeded"}), "ladder"),
        (end("failed", error={"code": "invalid_prompt"}), "never"),
        (end("failed", error={"code": "insufficient_quota"}), "never"),
        (end("failed"), "ladder"),
        (end("cancelled", event="failed"), "ladder"),
        (end("cancelled"), "ladder"),
        (end("cancelled", event="completed"), "ladder"),
        (end("completed", error={"code": "server_error"}), "ladder"),
        ({"type": "error", "code": "server_error", "message": "", "param": None}, "ladder"),
        ({"type": "error", "code": "image_too_large", "message": "", "param": None}, "never"),
        ({"type": "error", "error": {"type": "invalid_request_error", "code": None}}, "never"),
        ({"type": "error", "error": {"type": "invalid_request_error", "code": "invalid_api_key"}}, "never"),
        ({"error": {"type": "server_error", "message": "bare"}}, "ladder"),
        ({"object": "response", "status": "failed", "error": {"code": "server_error"}}, "ladder"),
    ],
)
def test_failures(last: Json, retry: str) -> None:
    outcome = judge(stream(call(), last=last))
    assert (outcome.verdict, outcome.stop, outcome.retry) == ("failed", "error", retry)
    assert "provider_error" in codes(outcome)


def test_an_error_overrides_a_terminal_before_or_behind_it() -> None:
    error: Json = {"type": "error", "code": "server_error", "message": "", "param": None}
    for events in (
        [*call(), end(), error],
        [*call(), error, end()],
        [error, *call(), end()],
        [*call(), end(), end("failed")],
    ):
        assert judge(numbered([created(), *events])).verdict == "failed"


def test_an_error_and_the_failure_after_it_are_one() -> None:
    error: Json = {"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
    outcome = judge(stream(error, last=end("failed", error={"code": "insufficient_quota"})))
    assert (outcome.verdict, outcome.retry, codes(outcome)) == ("failed", "never", ["provider_error"])


def test_a_response_that_came_as_one_object_is_no_stream() -> None:
    outcome = judge([{"object": "response", "id": "resp_1", "status": "completed", "output": []}])
    assert (outcome.verdict, outcome.calls) == ("unknown", ())
    assert "missing_events" in codes(outcome)


@pytest.mark.parametrize("other", [end(), end("incomplete", incomplete_details={"reason": "max_output_tokens"})])
def test_a_second_terminal_blocks(other: Json) -> None:
    assert codes(judge(stream(call(), end(), last=other))) == ["duplicate_terminal"]


def test_nothing_of_the_response_may_follow_its_terminal() -> None:
    for late in (*call(), *message(1), created(), {"type": "response.web_search_call.completed", "output_index": 0}):
        assert codes(judge(stream(call(), end(), last=late))) == ["delta_after_terminal"], late["type"]
    for late in ({"type": "keepalive"}, {"type": "response.steer.accepted"}):
        assert judge(stream(call(), end(), last=late)).verdict == "commit"
    assert judge([*stream(call()), "[DONE]"]).verdict == "commit"


def test_usage_and_handle_are_the_providers_own() -> None:
    outcome = judge(stream(call(), last=end(usage={"input_tokens": 1.50})))
    assert (outcome.usage_raw, outcome.handle) == ('{"input_tokens": 1.5}', "resp_1")


def test_another_response_is_a_collision_unless_the_numbers_go_on() -> None:
    changed = {**end(), "response": {"id": "resp_2", "status": "completed"}}
    outcome = judge(stream(call(), last=changed))
    assert (outcome.verdict, codes(outcome, "tolerated"), outcome.handle) == (
        "commit",
        ["identity_collision"],
        "resp_1",
    )
    assert codes(judge([created(), *call(), changed])) == ["identity_collision"]
    assert codes(judge(stream(created("resp_2"), call()))) == ["identity_collision"]
    assert codes(judge([created(""), created(""), *call(), end()])) == ["identity_collision"]


def test_a_final_output_that_repeats_the_stream_or_is_empty_is_right() -> None:
    events = [reasoning(["S."], encrypted_content="a"), message(1), call(2)]
    for output in (done(*events), []):
        assert judge(stream(*events, last=end(output=output))).findings == ()
    other = [{**item, "id": "z", "encrypted_content": "b", "status": "completed"} for item in done(*events)]
    assert judge(stream(*events, last=end(output=other))).findings == ()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"arguments": '{"a":2}'}, "missing_events"),
        ({"arguments": None}, "missing_events"),
        ({"call_id": "c2"}, "identity_collision"),
        ({"name": "write"}, "identity_collision"),
        ({"type": "message"}, "identity_collision"),
        ({"status": "incomplete"}, "missing_terminal"),
    ],
)
def test_a_final_output_with_another_call_blocks(change: Json, code: str) -> None:
    (item,) = done(call())
    outcome = judge(stream(call(), last=end(output=[{**item, **change}])))
    assert (outcome.verdict, codes(outcome)) == ("blocked", [code])


@pytest.mark.parametrize(
    "content", [[], [{"type": "output_text", "text": "Bye."}], [{"type": "refusal", "refusal": "Hello."}]]
)
def test_a_final_output_with_another_text_blocks(content: list[Json]) -> None:
    (item,) = done(message())
    assert codes(judge(stream(message(), last=end(output=[{**item, "content": content}])))) == ["missing_events"]


def test_what_the_final_output_alone_holds_blocks_unless_it_is_only_given_back() -> None:
    for extra in (*done(call(1, "c2")), *done(message(1, ident="m2")), {"type": "hologram"}):
        outcome = judge(stream(call(), last=end(output=[*done(call()), extra])))
        assert codes(outcome) == ["missing_events"]
    extra = {"type": "mcp_list_tools", "tools": []}
    outcome = judge(stream(call(), last=end(output=[*done(call()), extra])))
    assert ran(outcome) == [("c1", "look", A)]
    assert [b.data for b in outcome.blocks if b.kind == "server_tool_result"] == [json.dumps(extra)]


def test_what_the_final_output_lacks_blocks_where_the_turn_is_made_of_it() -> None:
    outcome = judge(stream(call(), call(1, "c2"), last=end(output=done(call()))))
    assert codes(outcome) == ["missing_events"]
    outcome = judge(stream(call(), whole(1, {"type": "compaction"}), last=end(output=done(call()))))
    assert outcome.verdict == "commit"


def test_the_final_output_ends_what_was_never_ended_but_no_call() -> None:
    for inner in (whole(0, {"type": "mcp_list_tools", "tools": [1]}), message(), reasoning(["S."])):
        outcome = judge(stream(inner[:-1], last=end(output=done(inner))))
        assert (outcome.verdict, codes(outcome, "tolerated")) == ("commit", ["missing_terminal"])
        assert codes(judge(stream(inner[:-1]))) == ["missing_terminal"]
    assert codes(judge(stream(call()[:-1], last=end(output=done(call()))))) == ["missing_terminal"]


def test_a_message_that_is_incomplete_in_a_completed_response_blocks() -> None:
    assert codes(judge(stream(message(status="incomplete")))) == ["missing_terminal"]
    cut = end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert judge(stream(message(status="incomplete"), last=cut)).verdict == "commit"


@pytest.mark.parametrize("value", ["[]", "1", "null", '"x"', "{}", '{"type":[]}', '{"type":{},"sequence_number":0}'])
def test_what_is_no_event_blocks_beside_a_call(value: str) -> None:
    events: list[Json | str] = [created(), *call(), value, end()]
    assert "unknown_event" in codes(judge(events))
