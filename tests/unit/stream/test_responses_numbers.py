"""The Responses normaliser: every event known, in its order, once."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.domain.adapters.openai_responses.normaliser_responses import HANDLERS
from turngate.domain.adapters.openai_responses.numbering import Numbering
from turngate.domain.stream.operations import Delta, Operation
from turngate.testing.responses_events import (
    A,
    Json,
    call,
    codes,
    created,
    end,
    judge,
    message,
    numbered,
    ran,
    stream,
)

DOCUMENTED = frozenset(
    {
        "response.created", "response.queued", "response.in_progress", "response.completed", "response.incomplete",
        "response.failed", "error", "keepalive", "response.output_item.added", "response.output_item.done",
        "response.content_part.added", "response.content_part.done", "response.output_text.delta",
        "response.output_text.done", "response.output_text.annotation.added", "response.refusal.delta",
        "response.refusal.done", "response.function_call_arguments.delta", "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
        "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
        "response.reasoning_text.delta",
        "response.reasoning_text.done", "response.web_search_call.in_progress", "response.web_search_call.searching",
        "response.web_search_call.completed", "response.file_search_call.in_progress",
        "response.file_search_call.searching", "response.file_search_call.completed",
        "response.code_interpreter_call.in_progress", "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed", "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done", "response.image_generation_call.in_progress",
        "response.image_generation_call.generating", "response.image_generation_call.partial_image",
        "response.image_generation_call.completed", "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done", "response.mcp_call.in_progress", "response.mcp_call.completed",
        "response.mcp_call.failed", "response.mcp_list_tools.in_progress", "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed", "response.shell_call_command.added", "response.shell_call_command.delta",
        "response.shell_call_command.done", "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done", "response.audio.delta", "response.audio.done",
        "response.audio.transcript.delta", "response.audio.transcript.done", "response.compaction.compacting",
        "response.steer.accepted", "response.steer.pending", "response.steer.failed",
        "response.apply_patch_call_operation_diff.delta", "response.apply_patch_call_operation_diff.done",
    }
)  # fmt: skip


def test_every_documented_event_is_read_or_named() -> None:
    assert HANDLERS.keys() >= DOCUMENTED


@pytest.mark.parametrize("name", sorted(tables.REPEATED | tables.IGNORED))
def test_named_events_beside_a_call_change_nothing(name: str) -> None:
    outcome = judge(stream(call()[:2], {"type": name, "output_index": 0, "item_id": "fc_c1"}, call()[2:]))
    assert ran(outcome) == [("c1", "look", A)]
    assert outcome.findings == ()


@pytest.mark.parametrize("name", sorted(tables.UNKEPT | {"response.new_thing", "codex.rate_limits", ""}))
def test_an_event_that_is_not_known_blocks_beside_a_call_only(name: str) -> None:
    outcome = judge(stream(call(), {"type": name}))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["unknown_event"])
    outcome = judge(stream(message(), {"type": name}))
    assert (outcome.verdict, codes(outcome, "note")) == ("commit", ["unknown_event"])


def test_an_unknown_event_that_may_hold_a_part_of_a_call_blocks_always() -> None:
    outcome = judge(stream(message(), {"type": "response.robot_call_arguments.delta", "delta": "x"}))
    assert outcome.verdict == "blocked"
    assert "missing_slot" in codes(outcome)


def test_keepalives_consume_numbers() -> None:
    events = stream(call()[:2], {"type": "keepalive"}, call()[2:])
    assert judge(events).verdict == "commit"
    without = [event for event in events if event["type"] != "keepalive"]
    assert codes(judge(without)) == ["missing_events"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_may_begin_at_zero_or_one(first: int) -> None:
    assert judge(numbered([created(), *call(), end()], first)).verdict == "commit"


def test_a_stream_that_begins_later_lacks_its_beginning() -> None:
    outcome = judge(numbered([created(), *call(), end()], 2))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["missing_events"])


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_lost_event_blocks(lost: int) -> None:
    events = stream(call())
    outcome = judge([*events[:lost], *events[lost + 1 :]])
    assert outcome.verdict == "blocked"
    assert "missing_events" in codes(outcome)


def test_a_lost_terminal_is_no_terminal() -> None:
    assert judge(stream(call())[:-1]).verdict == "unknown"


def test_an_error_behind_a_gap_is_read() -> None:
    outcome = judge([created() | {"sequence_number": 0}, {"type": "error", "code": "x", "sequence_number": 7}])
    assert outcome.stop == "error"
    assert "provider_error" in codes(outcome)


@pytest.mark.parametrize("at", range(7))
def test_an_event_sent_again_changes_nothing(at: int) -> None:
    events = stream(call())
    assert len(events) == 7
    for later in range(at + 1, 8):
        outcome = judge([*events[:later], events[at], *events[later:]])
        assert ran(outcome) == [("c1", "look", A)], later
        assert outcome.findings == ()
        assert outcome.delta_count == judge(events).delta_count


def test_only_padding_may_differ_where_an_event_is_sent_again() -> None:
    events = stream(call(), {"type": "response.mcp_call.in_progress", "output_index": 0})
    for at, again in enumerate(events):
        outcome = judge([*events[: at + 1], {**again, "obfuscation": "aXq"}, *events[at + 1 :]])
        wanted = [] if again["type"] in tables.DELTAS else ["identity_collision"]
        assert codes(outcome) == wanted, again["type"]
    padded = [{**event, "obfuscation": "k"} for event in events]
    outcome = judge([*padded[:6], {**padded[5], "obfuscation": "aXq"}, *padded[6:]])
    assert outcome.findings == ()


@pytest.mark.parametrize("change", [{"delta": "{ }"}, {"output_index": 1}, {"type": "response.refusal.delta"}])
def test_another_event_under_a_number_that_was_used_blocks(change: Json) -> None:
    events = stream(call())
    outcome = judge([*events[:4], {**events[2], **change}, *events[4:]])
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["identity_collision"])


def test_events_out_of_order_are_read_by_their_numbers() -> None:
    events = stream(call(pieces=['{"', 'a"', ":1", "}"]), message(1))
    straight = judge(events)
    for at in range(len(events) - 2):  # the terminal stays last
        order = [*events[:at], events[at + 1], events[at], *events[at + 2 :]]
        outcome = judge(order)
        if at == 0:
            assert "missing_events" in codes(outcome)  # the first event was not the first
        else:
            assert (ran(outcome), outcome.text, outcome.findings) == (ran(straight), "Hello.", ()), at
    assert judge([events[0], *reversed(events[1:-1]), events[-1]]).blocks == straight.blocks


def test_a_waiting_event_sent_again_is_dropped_and_another_one_blocks() -> None:
    events = stream(call())
    assert judge([*events[:2], events[3], events[3], events[2], *events[4:]]).findings == ()
    outcome = judge([*events[:2], events[3], {**events[3], "delta": "?"}, events[2], *events[4:]])
    assert codes(outcome) == ["identity_collision"]


def test_the_window_of_waiting_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    events = stream(message(text="Hello there."))
    monkeypatch.setattr(tables, "WINDOW_EVENTS", 3)
    numbers, out = Numbering(), list[Operation]()
    numbers.take(events[0], "", out)
    for event in events[2:6]:
        numbers.take(event, json.dumps(event), out)
    assert numbers.waiting == {}
    assert [getattr(note, "code", None) for note in out] == ["missing_events"]
    monkeypatch.setattr(tables, "WINDOW_EVENTS", 4096)
    monkeypatch.setattr(tables, "WINDOW_CHARACTERS", 10)
    numbers.take(events[8], json.dumps(events[8]), out)
    assert numbers.waiting == {}


def test_an_event_without_its_number_in_a_numbered_stream_blocks() -> None:
    events = stream(call())
    del events[3]["sequence_number"]
    assert "missing_events" in codes(judge(events))


@pytest.mark.parametrize("number", [True, -1, "4", 4.0, None])
def test_what_is_no_number_is_none(number: object) -> None:
    assert judge([{**event, "sequence_number": number} for event in (created(), *call(), end())]).verdict == "commit"
    events = stream(call())
    events[4]["sequence_number"] = number
    assert "missing_events" in codes(judge(events))


def test_a_number_that_equals_true_is_not_passed_over_in_a_run() -> None:
    events = numbered([created(), *message(text="Hello, you")[1:], end()], 0)
    deltas = [
        {**events[2], "sequence_number": 0},
        {**events[2], "sequence_number": True, "delta": "Z"},
    ]
    assert "missing_events" in codes(judge(deltas))


def test_without_numbers_the_beginning_must_be_there() -> None:
    assert judge([created(), *call(), end()]).verdict == "commit"
    assert codes(judge([*call(), end()])) == ["missing_events"]
    assert judge([{"type": "response.in_progress", "response": {"id": "r"}}, *call(), end(id="r")]).verdict == "commit"


def test_without_numbers_a_lost_delta_shows_at_the_end_of_its_block() -> None:
    events = [created(), *call(), end()]
    assert codes(judge([*events[:2], *events[3:]])) == ["malformed_json", "missing_events"]


def test_a_run_of_deltas_notices_numbers_repeats_and_ends() -> None:
    text = json.dumps({"long": "x" * 40})
    events = stream(call(arguments=text, pieces=list(text)))
    assert ran(judge(events)) == [("c1", "look", text)]
    assert judge([*events[:20], events[19], *events[20:]]).findings == ()
    assert codes(judge([*events[:20], *events[21:]])) == ["missing_events"]
    assert codes(judge([*events[:20], {**events[20], "item_id": "zz"}, *events[21:]])) == []
    done = next(n for n, event in enumerate(events) if str(event["type"]).endswith("arguments.done"))
    late = numbered([*events[: done + 1], {**events[19]}, *events[done + 1 :]])
    assert "delta_after_terminal" in codes(judge(late))


def test_a_run_ends_at_another_part_item_or_family() -> None:
    place = {"output_index": 0, "content_index": 0, "item_id": "m1"}
    delta: Json = {"type": "response.output_text.delta", **place, "delta": "a"}
    normaliser = find_normaliser("openai-responses").build()
    for number, event in enumerate([created(), *message()[:3]]):
        event["sequence_number"] = number
        normaliser.event(event, json.dumps(event), out := [])
    assert isinstance(out[-1], Delta)
    reads, due, took = normaliser.continuation(event, out[-1])  # type: ignore[attr-defined]
    assert due() == 4
    for change in (
        {"content_index": 1}, {"output_index": 1}, {"output_index": False}, {"content_index": False}, {"delta": ""},
        {"delta": 1}, {"type": "response.refusal.delta"}, {"sequence_number": 5}, {"sequence_number": None},
        {"sequence_number": 4.0}, {"item_id": []},
    ):  # fmt: skip
        assert reads({**delta, "sequence_number": 4, **change}, 4) is None
    assert reads([], 4) is None
    assert reads({**delta, "sequence_number": 4}, 4) == "a"
    assert reads({**delta, "sequence_number": 4}, 5) is None
    assert due() == 4
    took(["a"], "a")
    assert due() == 5
    assert reads({**delta, "sequence_number": 5}, 5) == "a"
