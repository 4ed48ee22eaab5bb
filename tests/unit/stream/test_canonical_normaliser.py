"""Canonical events: order and repeats change nothing, gaps and strangers run nothing."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.adapters.canonical import normaliser_tables as tables
from turngate.domain.adapters.canonical.normaliser_blocks import CanonicalNormaliser
from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.operations import Note, Operation

TOOLS = compile_toolset({"weather": {"type": "object"}})
ARGUMENTS = '{"city": "Bergen"}'

Event = dict[str, object]


def turn(**more: object) -> Event:
    return {"handle": "r1", "generation": 2, **more}


def block(index: int, kind: str, start: Event, *deltas: Event, choice: int = 0) -> list[Event]:
    operations = [{"start": start}, *({"delta": delta} for delta in deltas), {"stop": {}}]
    where: Event = {"choice": choice} if choice else {}
    return [
        turn(**where, blockIndex=index, deltaSeq=seq, kind=kind, **operation)
        for seq, operation in enumerate(operations)
    ]


def call(index: int = 0, *pieces: str, ident: str = "c1", name: str = "weather", choice: int = 0) -> list[Event]:
    deltas: list[Event] = [{"arguments": piece} for piece in pieces or (ARGUMENTS,)]
    return block(index, "tool_call", {"id": ident, "name": name}, *deltas, choice=choice)


def stop(word: str = "tool_calls", blocks: int = 1, **more: object) -> Event:
    return turn(turnStop={"class": word, "blocks": blocks, **more})


def judge(events: Sequence[Event]) -> Outcome:
    assembler = Assembler(profile="canonical", tools=TOOLS)
    assembler.feed(0, [json.dumps(event) for event in events])
    return assembler.end(StreamEnd("eof", count=len(events)))


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings if finding.severity == "error"]


def same(a: Outcome, b: Outcome) -> bool:
    """The counts of events and the places of findings are of the relay, not of the turn."""
    counts = {"event_count", "delta_count", "duplicate_count"}
    return all(getattr(a, name) == getattr(b, name) for name in Outcome.__slots__ if name not in counts)


WHOLE = [
    *block(0, "reasoning", {}, {"text": "Which "}, {"text": "town?"}, {"signature": "c2ln"}),
    *block(1, "text", {}, {"text": "Lo"}, {"citation": {"at": 1.0}}, {"text": "ok"}),
    *call(2, '{"city"', ': "Ber', 'gen"}'),
]
ENDED = [*WHOLE, stop(blocks=3, reason="tool_use"), turn(usage={"tokens": 1.0})]


def test_a_whole_turn() -> None:
    outcome = judge(ENDED)
    assert (outcome.verdict, outcome.stop, outcome.stop_value, outcome.handle) == (
        "commit", "tool_calls", "tool_use", "r1",
    )  # fmt: skip
    assert (outcome.text, outcome.reasoning, outcome.findings) == ("Look", "Which town?", ())
    assert outcome.blocks[0].signature == "c2ln"
    assert outcome.blocks[1].citations == ('{"at": 1.0}',)
    assert [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls] == [("c1", "weather", ARGUMENTS)]
    assert outcome.usage_raw == '{"tokens": 1.0}'


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 6))
def test_any_order_before_the_turn_stop_and_any_repeat_change_nothing(seed: int, repeats: int) -> None:
    rng = random.Random(seed)
    events = list(WHOLE)
    events += rng.sample(WHOLE, repeats)
    rng.shuffle(events)
    events += [ENDED[-2], *rng.sample(ENDED, repeats), ENDED[-1]]
    assert same(judge(events), judge(ENDED))


def test_every_order_of_one_call() -> None:
    events = call(0, '{"city"', ': "Ber', 'gen"}')
    straight = judge([*events, stop()])
    for order in itertools.permutations(events):
        assert same(judge([*order, stop()]), straight)


@pytest.mark.parametrize("lost", range(len(WHOLE)))
def test_a_lost_event_is_missing_at_the_turn_stop(lost: int) -> None:
    outcome = judge([event for place, event in enumerate(ENDED) if place != lost])
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert codes(outcome)[0] in ("missing_events", "missing_terminal")


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_cut_anywhere_nothing_runs(cut: int) -> None:
    assert (judge(ENDED[:cut]).verdict, judge(ENDED[:cut]).calls) == ("unknown", ())


def test_arguments_cut_at_every_byte_never_run() -> None:
    for cut in range(len(ARGUMENTS)):
        assert codes(judge([*call(0, ARGUMENTS[:cut]), stop()])) == ["malformed_json"]


@pytest.mark.parametrize(("word", "stop_class"), tables.STOPS.items())
def test_every_stop_class(word: str, stop_class: str) -> None:
    text = judge([*block(0, "text", {}, {"text": "a"}), stop(word)])
    with_call = judge([*call(), stop(word)])
    expected = {"tool_calls": "blocked", "unknown": "blocked", "error": "failed"}.get(word, "commit")
    assert text.verdict == expected
    assert (with_call.verdict == "commit") == (word == "tool_calls")
    assert text.stop == (stop_class if word != "tool_calls" else "unknown")


@pytest.mark.parametrize("word", tables.ERROR_CLASSES)
def test_an_error_fails_a_turn_that_had_ended(word: str) -> None:
    outcome = judge([*call(), stop(), turn(error={"type": "overloaded", "class": word})])
    assert (outcome.verdict, outcome.calls) == ("failed", ())
    assert outcome.retry == ("ladder" if word == "retryable" else "never")


@pytest.mark.parametrize(("member", "row"), tables.DELTAS.items())
def test_every_delta_belongs_to_its_kinds_alone(member: str, row: tuple[str, frozenset[str]]) -> None:
    value = "{}" if member == "arguments" else "a"
    for kind in tables.KINDS:
        start = {"id": "c9", "name": "weather"} if kind in tables.CALLS else {}
        outcome = judge([*block(0, kind, start, {member: value}), *call(1), stop(blocks=2)])
        assert ("missing_slot" in codes(outcome)) == (kind not in row[1])


def test_what_is_opaque_is_kept_as_it_came() -> None:
    outcome = judge([
        *block(0, "redacted_thinking", {"data": {"d": 1.0}}),
        *block(1, "server_tool_call", {"id": "s", "name": "n", "data": {"t": 1.0, "input": 0}}, {"arguments": "[1.0]"}),
        *block(2, "server_tool_call", {"id": "s", "name": "n"}, {"arguments": "{}"}),
        *block(3, "server_tool_result", {"data": {"r": 1.0}}, {"part": [1.0]}), stop("complete", 4),
    ])  # fmt: skip
    assert (outcome.verdict, outcome.findings) == ("commit", ())
    assert [b.data for b in outcome.blocks] == [
        '{"d": 1.0}', '{"t": 1.0, "input": [1.0]}', '{"id":"s","name":"n","input":{}}', '{"r": 1.0}',
    ]  # fmt: skip
    assert outcome.blocks[3].parts == ("[1.0]",)


def test_void_text_replaces_a_filtered_turn() -> None:
    outcome = judge([*block(0, "text", {}, {"text": "a"}), stop("filtered", void="No.")])
    assert [(b.kind, b.text) for b in outcome.blocks] == [("refusal", "No.")]


def at(event: Event, **more: object) -> Event:
    return {**event, **more}


START, DELTA, END = call()
WRONG: list[tuple[str, list[Event], str]] = [
    ("another handle", [START, at(DELTA, handle="r2"), END, stop()], "identity_collision"),
    ("another generation", [START, at(DELTA, generation=3), END, stop()], "identity_collision"),
    ("another kind", [START, at(DELTA, kind="text"), END, stop()], "identity_collision"),
    ("another call under the numbers of one", [*call(), *call(ident="c2"), stop()], "identity_collision"),
    ("another delta waiting", [DELTA, at(DELTA, delta={"arguments": "{}"}), START, END, stop()], "identity_collision"),
    ("two starts", [START, at(START, deltaSeq=1), at(END, deltaSeq=2), stop()], "identity_collision"),
    ("delta before any start", [at(DELTA, deltaSeq=0), at(END, deltaSeq=1), *call(1), stop(blocks=2)], "missing_slot"),
    ("fewer blocks than counted", [*call(), stop(blocks=2)], "missing_events"),
    ("more blocks than counted", [*call(), *call(1, ident="c2"), stop()], "missing_events"),
    ("a gap in the blocks", [*call(1), stop()], "missing_events"),
    ("no count of blocks", [*call(), turn(turnStop={"class": "tool_calls"})], "missing_slot"),
    ("too far ahead", [*call(), at(DELTA, blockIndex=1, deltaSeq=tables.WINDOW_EVENTS), stop()], "missing_events"),
    ("not ended", [START, DELTA, stop()], "missing_terminal"),
    ("a new event after the turn stop", [*call(), stop(), at(DELTA, deltaSeq=3)], "delta_after_terminal"),
    ("a far event after the turn stop", [*call(), stop(), at(DELTA, deltaSeq=9)], "delta_after_terminal"),
    ("a block after the turn stop", [*call(), stop(), *call(1, ident="c2")], "delta_after_terminal"),
    ("two turn stops", [*call(), stop(), stop(reason="x")], "duplicate_terminal"),
    ("delta after the stop", [*call(), at(DELTA, deltaSeq=3), stop()], "delta_after_terminal"),
    ("two stops", [*call(), at(END, deltaSeq=3), stop()], "duplicate_terminal"),
    ("unknown field", [at(START, extra=1), DELTA, END, stop()], "unknown_event"),
    ("place on a turn stop", [*call(), at(stop(), blockIndex=0)], "unknown_event"),
    ("unknown member", [at(START, start={"id": "c1", "name": "weather", "x": 1}), DELTA, END, stop()], "unknown_event"),
    ("member of a stop", [START, DELTA, at(END, stop={"x": 1}), stop()], "unknown_event"),
    ("two members of a delta", [START, at(DELTA, delta={"arguments": "{}", "part": 1}), END, stop()], "unknown_event"),
    ("no member of a delta", [START, at(DELTA, delta={}), END, stop()], "unknown_event"),
    ("arguments as object", [START, at(DELTA, delta={"arguments": {}}), END, stop()], "unknown_event"),
    ("id of a text", [*block(0, "text", {"id": "x"}), *call(1), stop(blocks=2)], "unknown_event"),
    ("data of a call", [at(START, start={"id": "c1", "name": "weather", "data": {}}), DELTA, END, stop()],
     "unknown_event"),
    ("data is text", [*block(0, "redacted_thinking", {"data": "x"}), *call(1), stop(blocks=2)], "unknown_event"),
    ("reason is a number", [*call(), stop(reason=7)], "unknown_event"),
    ("void beside calls", [*call(), stop(void="x")], "unknown_event"),
    ("no operation", [*call(), turn(), stop()], "unknown_event"),
    ("two operations", [*call(), at(END, usage={}), stop()], "unknown_event"),
    ("operation is no object", [*call(), turn(usage=7), stop()], "unknown_event"),
    ("unknown kind", [*call(), at(START, kind="video", blockIndex=1), stop()], "unknown_event"),
    ("no handle", [{k: v for k, v in START.items() if k != "handle"}, DELTA, END, stop()], "missing_identity"),
    ("empty handle", [at(event, handle="") for event in [*call(), stop()]], "missing_identity"),
    ("long handle", [*call(), at(stop(), handle="h" * (tables.HANDLE_CHARACTERS_MAX + 1)), stop()], "too_large"),
    ("no id", [at(START, start={"name": "weather"}), DELTA, END, stop()], "missing_identity"),
    ("several choices", [*call(), *call(choice=1), stop(), at(stop(), choice=1)], "multiple_choices"),
    ("unknown stop class", [*call(), stop("done")], "wrong_terminal_reason"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "code"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_wrong_runs_nothing_and_has_a_name(events: list[Event], code: str) -> None:
    outcome = judge(events)
    assert outcome.verdict in ("blocked", "unknown")
    assert outcome.calls == ()
    assert codes(outcome)[0] == code


@pytest.mark.parametrize("name", ["generation", "choice", "blockIndex", "deltaSeq"])
def test_numbers_have_a_type_and_bounds(name: str) -> None:
    least, greatest = tables.BOUNDS[name]
    for value in (least - 1, True, 1.0, "1", None):
        outcome = judge([*call(), {**END, name: value}, stop()])
        assert (codes(outcome)[0], outcome.calls) == ("missing_slot", ())
    outcome = judge([*call(), {**END, name: greatest + 1}, stop()])
    assert (codes(outcome)[0], outcome.calls) == ("too_large", ())


def refused_at_once(normaliser: CanonicalNormaliser, event: Event) -> bool:
    """Whether the event is reported as missing when it comes, not only at the turn stop."""
    raw, out = json.dumps(event), list[Operation]()
    normaliser.event(json.loads(raw), raw, out)
    return any(isinstance(made, Note) and made.code == "missing_events" for made in out)


def test_how_far_ahead_an_event_may_come_is_bounded() -> None:
    normaliser = CanonicalNormaliser()
    assert not refused_at_once(normaliser, at(DELTA, deltaSeq=tables.WINDOW_EVENTS - 1))
    assert refused_at_once(normaliser, at(DELTA, deltaSeq=tables.WINDOW_EVENTS))
    assert not refused_at_once(normaliser, START)
    assert not refused_at_once(normaliser, at(DELTA, deltaSeq=tables.WINDOW_EVENTS))


def test_how_much_may_wait_is_bounded_over_all_blocks() -> None:
    normaliser = CanonicalNormaliser()
    large = {"arguments": "x" * (tables.WINDOW_CHARACTERS // 2 - 1000)}

    def held(index: int, seq: int) -> bool:
        return not refused_at_once(normaliser, at(DELTA, blockIndex=index, deltaSeq=seq, delta=large))

    assert [held(0, 1), held(1, 1), held(2, 1), held(1, 2)] == [True, True, False, False]
    assert not refused_at_once(normaliser, START)  # what waited for it waits no longer
    assert [held(2, 1), held(1, 2)] == [True, False]


def test_blocked_forms_block_a_turn_of_text_too() -> None:
    text = block(0, "text", {}, {"text": "a"})
    for event in (turn(), turn(newOperation={}), at(START, kind="function_call", blockIndex=1)):
        assert judge([*text, event, stop("complete")]).verdict == "blocked"


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-1, 3), st.sampled_from(["", "a", "tool_call", "text", "r1"])),
    lambda inner: st.dictionaries(
        st.sampled_from(["id", "name", "text", "arguments", "class", "blocks", "data", "x"]), inner, max_size=3
    ),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_bent_events_are_an_outcome_and_run_only_what_was_written(data: st.DataObject) -> None:
    events: list[object] = []
    for event in ENDED:
        bend = data.draw(st.integers(0, 9))
        if bend == 0:
            event = {**event, data.draw(st.sampled_from([*event, "x", "error"])): data.draw(VALUES)}
        events += [data.draw(VALUES)] if bend == 1 else [event] * (bend != 2)
    assembler = Assembler(profile="canonical", tools=TOOLS)
    assembler.feed(0, [json.dumps(event) for event in events])
    for made in assembler.end(StreamEnd("eof", count=len(events))).calls:
        assert made.arguments_raw == ARGUMENTS
