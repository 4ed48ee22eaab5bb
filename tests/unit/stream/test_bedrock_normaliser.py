"""Bedrock ConverseStream: every row of its tables, every order its events may come in, and what never runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.adapters.bedrock import normaliser_tables as tables
from turngate.domain.stream import Assembler, Outcome, Preview, StreamEnd, compile_toolset

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = compile_toolset({"weather": CITY, "any": {"type": "object"}})
BERGEN = '{"city": "Bergen"}'

Event = dict[str, object]


def begin(role: str = "assistant") -> Event:
    return {"messageStart": {"role": role, "p": "abc"}}


def opened(index: int, start: object) -> Event:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start, "p": "ab"}}


def delta(index: int, **member: object) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": member, "p": "abcd"}}


def closed(index: int) -> Event:
    return {"contentBlockStop": {"contentBlockIndex": index, "p": "a"}}


def stop(reason: object = "tool_use") -> Event:
    return {"messageStop": {"stopReason": reason, "additionalModelResponseFields": {"delta": {}}, "p": "a"}}


def meta(tokens: int = 3) -> Event:
    return {"metadata": {"usage": {"totalTokens": tokens}, "metrics": {"latencyMs": 1}, "trace": {"guardrail": {}}}}


def use(index: int = 0, *pieces: str, ident: str = "t1", name: str = "weather", **more: object) -> list[Event]:
    start = {"toolUse": {"toolUseId": ident, "name": name, **more}}
    inputs = [delta(index, toolUse={"input": piece}) for piece in pieces or (BERGEN,)]
    return [opened(index, start), *inputs, closed(index)]


def judge(events: Sequence[object], end: StreamEnd | None = None) -> Outcome:
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    assembler.feed(0, [json.dumps(event) for event in events])
    return assembler.end(end or StreamEnd("eof", count=len(events)))


def codes(outcome: Outcome, severity: str = "error") -> list[str]:
    return [finding.code for finding in outcome.findings if finding.severity == severity]


def test_a_whole_turn_keeps_every_block_in_order() -> None:
    cited = {"title": "facts", "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 4}}}
    outcome = judge([
        begin(),
        delta(0, reasoningContent={"text": "Which "}), delta(0, reasoningContent={"text": "town?"}),
        delta(0, reasoningContent={"signature": "c2"}), delta(0, reasoningContent={"signature": "ln"}), closed(0),
        delta(1, reasoningContent={"redactedContent": "AAEC"}), closed(1),
        delta(2, citation=cited), delta(2, text="Lo"), delta(2, text="oking."), closed(2),
        *use(3, '{"city"', ': "Ber', 'gen"}'),
        stop(), meta(),
    ])  # fmt: skip
    assert (outcome.verdict, outcome.stop, outcome.stop_value) == ("commit", "tool_calls", "tool_use")
    assert outcome.findings == ()
    assert [block.kind for block in outcome.blocks] == ["reasoning", "redacted_thinking", "text", "tool_call"]
    assert (outcome.reasoning, outcome.blocks[0].signature) == ("Which town?", "c2ln")
    assert outcome.blocks[1].parts == ('{"redactedContent": "AAEC"}',)
    assert (outcome.text, outcome.blocks[2].citations) == ("Looking.", (json.dumps(cited),))
    (call,) = outcome.calls
    assert (call.call_id, call.name, call.arguments_raw, call.slot) == ("t1", "weather", BERGEN, "0/3")
    assert (outcome.usage, outcome.usage_raw) == ({"totalTokens": 3}, '{"totalTokens": 3}')


@pytest.mark.parametrize(("reason", "stop_class"), tables.STOPS.items())
def test_every_stop_reason_of_a_text(reason: str, stop_class: str) -> None:
    outcome = judge([begin(), delta(0, text="a"), closed(0), stop(reason)])
    if stop_class == "error":
        assert (outcome.verdict, outcome.stop, outcome.retry) == ("failed", "error", "ladder")
        assert codes(outcome) == ["provider_error"]
    elif stop_class == "tool_calls":
        assert (outcome.verdict, outcome.stop, codes(outcome)) == ("blocked", "unknown", ["wrong_terminal_reason"])
    else:
        assert (outcome.verdict, outcome.stop, outcome.findings) == ("commit", stop_class, ())


@pytest.mark.parametrize("reason", ["new_word", "", None, 7, "refusal", "pause_turn"])
def test_an_unknown_stop_reason_commits_nothing(reason: object) -> None:
    outcome = judge([begin(), delta(0, text="a"), closed(0), stop(reason)])
    assert (outcome.verdict, outcome.stop, codes(outcome)) == ("blocked", "unknown", ["wrong_terminal_reason"])


@pytest.mark.parametrize("reason", [*tables.STOPS, "new_word"])
def test_calls_run_under_their_own_label_or_the_end_of_the_turn(reason: str) -> None:
    outcome = judge([begin(), *use(), stop(reason)])
    runs = reason in ("tool_use", "end_turn")
    assert (outcome.verdict == "commit", bool(outcome.calls)) == (runs, runs)
    assert codes(outcome, "tolerated") == (["wrong_terminal_reason"] if reason == "end_turn" else [])
    if runs:
        assert outcome.stop == "tool_calls"
    elif tables.STOPS.get(reason) in ("truncated", "filtered"):
        assert (outcome.verdict, outcome.retry) == ("blocked", "never")


def test_the_end_of_the_turn_beside_an_unfinished_call_runs_nothing() -> None:
    outcome = judge([begin(), *use()[:-1], stop("end_turn")])
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["missing_terminal"])
    assert judge([begin(), *use(0, '{"city": "Ber'), stop("end_turn")]).verdict == "blocked"


@pytest.mark.parametrize("pieces", [[""], ["", ""]])
def test_empty_input_of_an_ended_call_is_an_empty_object(pieces: list[str]) -> None:
    outcome = judge([begin(), *use(0, *pieces, name="any"), stop()])
    assert [call.arguments for call in outcome.calls] == [{}]
    bare = judge([begin(), opened(0, {"toolUse": {"toolUseId": "t", "name": "any"}}), closed(0), stop()])
    assert [call.arguments for call in bare.calls] == [{}]


def test_a_type_of_null_or_tool_use_is_a_clients_call() -> None:
    for word in (None, "tool_use"):
        assert len(judge([begin(), *use(0, type=word), stop()]).calls) == 1


def test_what_the_provider_runs_itself_is_kept_and_not_called() -> None:
    start = {"toolUseId": "s1", "name": "interpreter", "type": "server_tool_use"}
    result = {"toolResult": {"toolUseId": "s1", "status": "success", "type": "interpreter_result"}}
    content = [{"json": {"out": "7", "exact": 1.0}}]
    outcome = judge([
        begin(), opened(0, {"toolUse": start}), delta(0, toolUse={"input": '{"code":'}),
        delta(0, toolUse={"input": "1.0}"}), closed(0),
        opened(1, result), delta(1, toolResult=content), closed(1),
        opened(2, {"image": {"format": "png"}}), delta(2, image={"source": {"bytes": "AAEC"}}), closed(2),
        delta(3, text="7"), closed(3), stop("end_turn"),
    ])  # fmt: skip
    assert (outcome.verdict, outcome.calls, outcome.findings) == ("commit", (), ())
    server, given, image, _ = outcome.blocks
    assert (server.kind, server.call_id, server.arguments_raw) == ("server_tool_call", "s1", '{"code":1.0}')
    assert json.loads(server.data or "") == {"toolUse": {**start, "input": {"code": 1.0}}}
    assert (given.kind, given.parts) == ("server_tool_result", (json.dumps(result), json.dumps(content)))
    assert image.kind == "image"
    assert image.parts == ('{"image": {"format": "png"}}', '{"source": {"bytes": "AAEC"}}')


@pytest.mark.parametrize(("name", "error_class"), tables.ERROR_CLASSES.items())
def test_every_exception_fails_the_turn_whatever_came_before(name: str, error_class: str) -> None:
    for word in (name, name[:1].upper() + name[1:]):
        outcome = judge([begin(), *use(), stop(), meta(), {word: {"message": "secret words"}}])
        assert (outcome.verdict, outcome.calls, outcome.request_end) == ("failed", (), "failed")
        assert outcome.retry == ("ladder" if error_class == "retryable" else "never")
        assert codes(outcome) == ["provider_error"]
        assert "secret" not in str(outcome.findings)


@pytest.mark.parametrize("event", [
    {"brandNewException": {}}, {"error": {"code": "InternalFailure", "message": "m"}}, {"error": None},
])  # fmt: skip
def test_an_error_of_an_unknown_name_is_an_error(event: Event) -> None:
    outcome = judge([begin(), *use(), stop(), event])
    assert (outcome.verdict, outcome.retry, codes(outcome)) == ("failed", "ladder", ["provider_error"])


def test_metadata_may_stand_anywhere_and_the_last_usage_counts() -> None:
    before = judge([meta(1), begin(), *use(), meta(2), stop()])
    behind = judge([begin(), *use(), stop(), meta(1), meta(2)])
    for outcome in (before, behind):
        assert (outcome.verdict, outcome.usage, outcome.findings) == ("commit", {"totalTokens": 2}, ())
    without = judge([begin(), *use(), {"metadata": {"metrics": {}}}, stop(), {"metadata": {"usage": None}}])
    assert (without.verdict, without.usage) == ("commit", None)


@pytest.mark.parametrize("start", [{}, None, {"toolUse": None}])
def test_an_empty_start_announces_a_block_that_its_delta_names(start: object) -> None:
    outcome = judge([
        begin(), opened(0, start), delta(0, text="a"), closed(0), opened(1, start),
        delta(1, reasoningContent={"text": "r"}), closed(1), opened(2, start), closed(2), stop("end_turn"),
    ])  # fmt: skip
    assert (outcome.verdict, outcome.text, outcome.reasoning, outcome.findings) == ("commit", "a", "r", ())
    assert [block.kind for block in outcome.blocks] == ["text", "reasoning", "text"]
    assert judge([begin(), opened(0, start), delta(0, toolUse={"input": "{}"}), stop("end_turn")]).verdict == "blocked"


@pytest.mark.parametrize("kind", sorted(tables.CLOSED_BY_TURN))
def test_prose_may_end_with_the_turn_and_nothing_else_may(kind: str) -> None:
    prose = {
        "text": delta(0, text="a"),
        "reasoning": delta(0, reasoningContent={"text": "a"}),
        "redacted_thinking": delta(0, reasoningContent={"redactedContent": "AA"}),
    }
    outcome = judge([begin(), prose[kind], *use(1), stop()])
    assert (outcome.verdict, codes(outcome, "tolerated")) == ("commit", ["missing_terminal"])
    for start in ({"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}}, {"image": {}}):
        assert codes(judge([begin(), opened(0, start), stop("end_turn")])) == ["missing_terminal"]


WRONG: list[tuple[str, list[Event], str]] = [
    ("reused index, other id", [*use()[:2], *use(ident="t2"), stop()], "identity_collision"),
    ("index of a text", [delta(0, text="a"), *use(), stop()], "identity_collision"),
    ("announced twice", [opened(0, {}), opened(0, {}), *use(1), stop()], "identity_collision"),
    ("two messages", [begin(), *use(), begin(), stop()], "identity_collision"),
    ("two begins of one message", [begin(), begin(), *use(), stop()], "identity_collision"),
    ("message begins late", [*use(), begin(), stop()], "identity_collision"),
    ("call without start", [*use(1), delta(0, toolUse={"input": "{}"}), closed(0), stop()], "missing_slot"),
    ("stop without block", [*use(1), closed(0), stop()], "missing_slot"),
    ("result without start", [*use(1), delta(0, toolResult=[]), stop()], "missing_slot"),
    ("image without start", [*use(1), delta(0, image={}), stop()], "missing_slot"),
    ("text into a call", [*use()[:2], delta(0, text="a"), closed(0), stop()], "missing_slot"),
    ("citation into a call", [*use()[:2], delta(0, citation={}), closed(0), stop()], "missing_slot"),
    ("arguments into a text", [delta(1, text="a"), delta(1, toolUse={"input": "{}"}), *use(), stop()], "missing_slot"),
    ("reasoning into a text", [delta(1, text="a"), delta(1, reasoningContent={"text": "b"}), *use(), stop()],
     "missing_slot"),
    ("redacted into reasoning", [delta(1, reasoningContent={"text": "b"}),
                                 delta(1, reasoningContent={"redactedContent": "AA"}), *use(), stop()],
     "missing_slot"),
    ("no index", [*use(), {"contentBlockDelta": {"delta": {"text": "a"}}}, stop()], "missing_slot"),
    ("index is true", [*use(1)[:-1], {"contentBlockStop": {"contentBlockIndex": True}}, stop()], "missing_slot"),
    ("negative index", [*use(), delta(-1, text="a"), closed(-1), stop()], "missing_slot"),
    ("start without index", [*use(), {"contentBlockStart": {"start": {}}}, stop()], "missing_slot"),
    ("no id", [opened(0, {"toolUse": {"name": "any"}}), closed(0), stop()], "missing_identity"),
    ("no name", [opened(0, {"toolUse": {"toolUseId": "t"}}), closed(0), stop()], "missing_identity"),
    ("same id twice", [*use(), *use(1), stop()], "duplicate_call_id"),
    ("two stops", [*use(), stop(), stop()], "duplicate_terminal"),
    ("block ended twice", [*use(), closed(0), stop()], "duplicate_terminal"),
    ("delta after its block", [*use(), delta(0, toolUse={"input": " "}), stop()], "delta_after_terminal"),
    ("text after its block", [*use(1), delta(0, text="a"), closed(0), delta(0, text="b"), stop()],
     "delta_after_terminal"),
    ("block after the turn", [*use(), stop(), *use(1, ident="t2")], "delta_after_terminal"),
    ("text after the turn", [*use(), stop(), delta(1, text="a")], "delta_after_terminal"),
    ("end of a text after the turn", [delta(1, text="a"), *use(), stop(), closed(1)], "delta_after_terminal"),
    ("unknown event", [*use(), {"heartbeat": {}}, stop()], "unknown_event"),
    ("two members", [*use(), {"metadata": {}, "messageStop": {}}, stop()], "unknown_event"),
    ("no member", [*use(), {}, stop()], "unknown_event"),
    ("another role", [begin("user"), *use(), stop()], "unknown_event"),
    ("image into a result", [*use(), opened(1, {"toolResult": {}}), delta(1, image={}), closed(1), stop()],
     "missing_slot"),
    ("unknown block", [*use(), opened(1, {"video": {}}), closed(1), stop()], "unknown_event"),
    ("unknown delta", [*use(), delta(1, text="a"), delta(1, audio="b"), closed(1), stop()], "unknown_event"),
    ("empty delta", [*use(), delta(1), stop()], "unknown_event"),
    ("unknown reasoning", [*use(), delta(1, reasoningContent={"text": "a", "steps": []}), stop()], "unknown_event"),
    ("empty reasoning", [*use(), delta(1, reasoningContent={}), stop()], "unknown_event"),
    ("reasoning without text", [*use(), delta(1, reasoningContent={"text": 7}), stop()], "unknown_event"),
    ("input as object", [opened(0, {"toolUse": {"toolUseId": "t", "name": "any"}}),
                         delta(0, toolUse={"input": {"city": "B"}}), closed(0), stop()], "unknown_event"),
    ("text as number", [*use(), delta(1, text=7), stop()], "unknown_event"),
    ("input in the start", [*use(0, input={}), stop()], "unknown_event"),
    ("unknown type of tool", [*use(0, type="client_tool_use"), stop()], "unknown_event"),
    ("type is no text", [*use(0, type=7), stop()], "unknown_event"),
    ("cut arguments", [*use(0, '{"city": "B'), stop()], "malformed_json"),
    ("unknown tool", [*use(name="other"), stop()], "unknown_tool"),
    ("schema", [*use(0, '{"city": 7}'), stop()], "schema_invalid"),
    ("no stop", [*use()], "missing_terminal"),
    ("no stop of the call", [*use()[:-1], stop()], "missing_terminal"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "code"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_runs_nothing_and_has_a_name(events: list[Event], code: str) -> None:
    outcome = judge(events)
    assert outcome.verdict in ("blocked", "unknown")
    assert outcome.calls == ()
    assert codes(outcome)[0] == code


@pytest.mark.parametrize("event", [
    {"toolCallStart": {}}, delta(0, functionCall={}), opened(1, {"toolCall": {}}), opened(1, {"a": {}, "b": {}}),
])  # fmt: skip
def test_what_may_be_a_call_is_never_dropped_beside_text(event: Event) -> None:
    outcome = judge([begin(), delta(0, text="a"), event, stop("end_turn")])
    assert outcome.verdict == "blocked"
    assert "unknown_event" in [finding.code for finding in outcome.findings]


@pytest.mark.parametrize("event", [{"heartbeat": {}}, delta(0, audio={}), opened(1, {"searchResult": {}})])
def test_other_unknown_parts_are_noted_beside_text(event: Event) -> None:
    outcome = judge([begin(), delta(0, text="a"), event, closed(0), stop("end_turn")])
    assert "unknown_event" in codes(outcome, "note")
    assert (outcome.verdict == "commit") == ("contentBlockStart" not in event)


def test_previews_name_text_and_byte_counts_and_never_arguments() -> None:
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    shown: list[Preview] = []
    for seq, event in enumerate([begin(), delta(0, text="Hi"), closed(0), *use(1), stop()]):
        shown += assembler.feed(seq, [json.dumps(event)])
    assert [(p.kind, p.phase, p.text, p.byte_count) for p in shown] == [
        ("text", "started", "", 0), ("text", "delta", "Hi", 0), ("text", "stopped", "", 0),
        ("tool_call", "started", "", 0), ("tool_call", "delta", "", len(BERGEN)),
    ]  # fmt: skip


WHOLE = [
    begin(),
    delta(0, text="Hei "),
    delta(0, text="øy"),
    closed(0),
    *use(1, '{"city"', ': "Bergen"}'),
    stop(),
    meta(),
]


@pytest.mark.parametrize("cut", range(len(WHOLE) - 1))
def test_cut_at_every_event_nothing_runs(cut: int) -> None:
    outcome = judge(WHOLE[:cut])
    assert (outcome.verdict, outcome.calls, outcome.blocks) == ("unknown", (), ())


@pytest.mark.parametrize("lost", range(1, len(WHOLE) - 1))
def test_an_event_that_the_provider_leaves_out_runs_no_other_call(lost: int) -> None:
    """The relay lost nothing; a piece of text or of input is simply not there."""
    outcome = judge([event for place, event in enumerate(WHOLE) if place != lost])
    texts = {"contentBlockDelta", "contentBlockStop"}
    if lost < 4 and set(WHOLE[lost]) <= texts:
        assert [call.arguments_raw for call in outcome.calls] == [BERGEN]
    else:
        assert outcome.calls == ()


@given(
    st.lists(
        st.one_of(
            st.sampled_from([json.dumps(event) for event in WHOLE]),
            st.builds(
                lambda name, payload: json.dumps({name: payload}),
                st.sampled_from([*(next(iter(event)) for event in WHOLE), "error", "x"]),
                st.dictionaries(
                    st.sampled_from(["contentBlockIndex", "delta", "start", "stopReason", "usage", "role"]),
                    st.one_of(
                        st.none(), st.integers(-1, 2), st.text(max_size=2),
                        st.dictionaries(st.sampled_from(["text", "toolUse", "reasoningContent", "image", "x"]),
                                        st.one_of(st.none(), st.text(max_size=2), st.dictionaries(
                                            st.sampled_from(["input", "toolUseId", "name", "type", "text"]),
                                            st.text(max_size=2), max_size=3)), max_size=2),
                    ),
                ),
            ),
        ),
        max_size=12,
    )
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_whatever_comes_is_an_outcome_and_runs_only_what_was_written(texts: list[str]) -> None:
    assembler = Assembler(profile="bedrock", tools=TOOLS)
    assembler.feed(0, texts)
    outcome = assembler.end(StreamEnd("eof", count=len(texts)))
    for call in outcome.calls:
        assert (call.name, call.arguments) in (("weather", {"city": "Bergen"}), ("any", {}))
