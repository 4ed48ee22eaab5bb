"""What holds of every valid fixture of every profile in this build: cuts run nothing, disorder changes nothing.

A fixture added to the folder is covered at once. Small streams are tried exhaustively, larger ones by Hypothesis.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.adapters.normalisers import find_normaliser, profiles
from turngate.domain.stream import Assembler, Limits, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.conformance import Fixture, UnreadableFixture, judge_fixture, read_fixture
from turngate.domain.stream.sse_text import SseDecoder
from turngate.schemas.digests import record_digest

FOLDER = Path(__file__).with_name("fixtures")
Frame = tuple[int, Sequence[str]]

ORDERS_EXHAUSTIVE_MAX = 5
"""Events of a stream whose every order is tried (120 of them)."""
SPLITS_EXHAUSTIVE_MAX = 8
"""Events of a stream whose every split into frames is tried (128 of them)."""


def valid_fixtures() -> Iterator[tuple[str, Fixture]]:
    for path in sorted(FOLDER.glob("*.json")):
        try:
            fixture = read_fixture(path.read_bytes())
        except UnreadableFixture:
            continue
        if judge_fixture(fixture)["status"] in ("pass", "not_applicable"):
            yield path.stem, fixture


VALID = dict(valid_fixtures())
WITH_CALLS = [name for name, fixture in VALID.items() if judge_fixture(fixture)["executable"]]


def judge(fixture: Fixture, frames: Iterable[Frame], count: int | None, limits: Limits | None = None) -> Outcome:
    assembler = assembler_of(fixture, limits)
    for first, events in frames:
        assembler.feed(first, events)
    return assembler.end(StreamEnd("eof", count=count))


def assembler_of(fixture: Fixture, limits: Limits | None = None) -> Assembler:
    return Assembler(
        profile=fixture.profile,
        tools=compile_toolset(fixture.tool_schemas),
        tool_choice=fixture.tool_choice,
        limits=limits or Limits(),
        alternatives="note",
    )


def executable(outcome: Outcome) -> bool:
    return outcome.verdict == "commit" and bool(outcome.calls)


def canonical_digest(outcome: Outcome) -> str:
    """Over all that a canonical turn is made of; `arguments` is left out, since its exact text is in."""
    assert outcome.verdict == "commit"
    blocks = [dataclasses.asdict(dataclasses.replace(block, arguments=None)) for block in outcome.blocks]
    turn = {
        "blocks": blocks,
        "stop": [outcome.stop, outcome.stop_value],
        "usage": outcome.usage_raw,
        "handle": outcome.handle,
        "continues": outcome.continues,
        "events": [outcome.event_count, outcome.delta_count],
    }
    return record_digest(json.loads(json.dumps(turn)))


def straight(fixture: Fixture) -> str:
    return canonical_digest(judge(fixture, [(0, fixture.events)], len(fixture.events)))


def singles(fixture: Fixture) -> list[Frame]:
    return [(seq, [event]) for seq, event in enumerate(fixture.events)]


def test_every_profile_has_a_valid_fixture_with_calls() -> None:
    assert {VALID[name].profile for name in WITH_CALLS} == set(profiles())


# -- cuts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALID)
def test_cut_at_any_event_nothing_runs(name: str) -> None:
    """The relay says how many events it sent; any of them lacking, nothing may run."""
    events = VALID[name].events
    for cut in range(len(events)):
        outcome = judge(VALID[name], [(0, events[:cut])], len(events))
        assert outcome.verdict != "commit", cut
        assert outcome.calls == ()


def finished(field: str) -> Callable[[dict[str, object]], bool]:
    """Whether a choice or candidate of the event names a reason for stopping in `field`."""

    def terminal(event: dict[str, object]) -> bool:
        found = [*cast("list[object]", event.get("choices") or event.get("candidates") or [])]
        return any(isinstance(item, dict) and item.get(field) for item in found)

    return terminal


def named(*words: str) -> Callable[[dict[str, object]], bool]:
    """Whether the event is one of these, by its `type` or its only key."""
    return lambda event: event.get("type") in words or not event.keys().isdisjoint(words)


TERMINALS: dict[str, Callable[[dict[str, object]], bool]] = {
    "openai": finished("finish_reason"),
    "openai-compat": finished("finish_reason"),
    "mistral": finished("finish_reason"),
    "gemini": lambda event: finished("finishReason")(event) or bool(event.get("promptFeedback")),
    "anthropic": named("message_stop"),
    "bedrock": named("messageStop"),
    "canonical": named("turnStop"),
    "openai-responses": named("response.completed", "response.incomplete", "response.failed"),
}
"""What is terminal evidence on each wire, said here once more and apart from the normalisers."""


def is_terminal(profile: str, text: str) -> bool:
    if text in find_normaliser(profile).facts.sentinels:
        return False
    value: object = json.loads(text)
    return isinstance(value, dict) and TERMINALS[profile](cast("dict[str, object]", value))


def test_terminal_evidence_is_named_for_every_profile() -> None:
    assert set(profiles()) <= set(TERMINALS)


@pytest.mark.parametrize("name", VALID)
def test_a_prefix_without_terminal_evidence_is_never_executable(name: str) -> None:
    """However the relay ended, and also while it is still open."""
    fixture = VALID[name]
    first = next(n for n, event in enumerate(fixture.events) if is_terminal(fixture.profile, event))
    for cut in range(first + 1):
        prefix = [(0, fixture.events[:cut])]
        assembler = assembler_of(fixture)
        assembler.feed(*prefix[0])
        assert not executable(assembler.pending())
        for closed in (False, True):
            assembler = assembler_of(fixture)
            assembler.feed(*prefix[0])
            outcome = assembler.end(StreamEnd("eof", count=cut, evidence_closed=closed))
            assert outcome.verdict == ("failed" if closed else "unknown"), cut
            assert (outcome.calls, outcome.blocks, outcome.terminal_seen) == ((), (), False)


JSON_TEXT = frozenset({"arguments", "partial_json", "input", "delta"})
"""Keys under which argument text stands, over all profiles. Other text may be cut with it; what runs is judged."""
VALUES = frozenset({"stringValue"})
"""Keys of argument values that come in pieces. A value cut short is a value still: only the terminal tells."""


def argument_places(
    value: object, keys: frozenset[str], path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Path and text of every string under one of the keys, in wire order."""
    if isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            if key in keys and isinstance(child, str):
                yield (*path, key), child
            else:
                yield from argument_places(child, keys, (*path, key))
    elif isinstance(value, list):
        for place, child in enumerate(cast("list[object]", value)):
            yield from argument_places(child, keys, (*path, place))


def with_text(value: object, path: tuple[str | int, ...], text: str) -> object:
    if not path:
        return text
    if isinstance(value, dict):
        return {key: with_text(child, path[1:], text) if key == path[0] else child for key, child in value.items()}
    items = cast("list[object]", value)
    return [with_text(child, path[1:], text) if place == path[0] else child for place, child in enumerate(items)]


def cuts(fixture: Fixture, keys: frozenset[str]) -> Iterator[tuple[int, list[str]]]:
    """The stream with its argument text cut at every length: the place of the cut, and all events, those after it
    without any argument text."""
    events = list(fixture.events)
    places = [
        (seq, path, text)
        for seq, event in enumerate(events)
        if event not in find_normaliser(fixture.profile).facts.sentinels
        for path, text in argument_places(json.loads(event), keys)
    ]
    for seq, path, text in reversed(places):
        whole = events[seq]
        for length in range(len(text)):
            events[seq] = json.dumps(with_text(json.loads(whole), path, text[:length]))
            yield seq, list(events)
        events[seq] = json.dumps(with_text(json.loads(whole), path, ""))


def test_every_profile_has_argument_text_to_cut() -> None:
    cut = {VALID[name].profile for name in WITH_CALLS if next(cuts(VALID[name], JSON_TEXT | VALUES), None)}
    assert cut == set(profiles())


@pytest.mark.parametrize("name", WITH_CALLS)
def test_cut_at_any_argument_byte_nothing_runs(name: str) -> None:
    fixture = VALID[name]
    for seq, events in cuts(fixture, JSON_TEXT | VALUES):
        if is_terminal(fixture.profile, events[seq]):
            continue  # a whole call in the event that also ends the turn: the next test cuts it
        outcome = judge(fixture, [(0, events[: seq + 1])], None)
        assert not executable(outcome)
        assert outcome.verdict == "unknown"


@pytest.mark.parametrize("name", WITH_CALLS)
def test_cut_arguments_under_the_right_label_run_only_what_was_meant(name: str) -> None:
    """The rest of the text is lost, everything else arrives. What still runs has the very same arguments."""
    fixture = VALID[name]
    meant = [call.arguments for call in judge(fixture, [(0, fixture.events)], None).calls]
    for _, events in cuts(fixture, JSON_TEXT):
        outcome = judge(fixture, [(0, events)], None)
        if executable(outcome):
            assert [call.arguments for call in outcome.calls] == meant


# -- repeats, orders, splits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALID)
def test_any_event_repeated_anywhere_changes_nothing(name: str) -> None:
    fixture = VALID[name]
    wanted, frames = straight(fixture), singles(fixture)
    for seq in range(len(frames)):
        for at in range(len(frames) + 1):
            again = [*frames[:at], frames[seq], *frames[at:]]
            assert canonical_digest(judge(fixture, again, len(frames))) == wanted, (seq, at)


@pytest.mark.parametrize("name", VALID)
def test_everything_repeated_changes_nothing(name: str) -> None:
    fixture = VALID[name]
    twice = [*singles(fixture), (0, fixture.events), *reversed(singles(fixture))]
    assert canonical_digest(judge(fixture, twice, len(fixture.events))) == straight(fixture)


@pytest.mark.parametrize("name", [n for n, f in VALID.items() if len(f.events) <= ORDERS_EXHAUSTIVE_MAX])
def test_every_order_of_a_small_stream_changes_nothing(name: str) -> None:
    fixture = VALID[name]
    wanted = straight(fixture)
    for order in itertools.permutations(singles(fixture)):
        assert canonical_digest(judge(fixture, order, len(order))) == wanted


@pytest.mark.parametrize("name", VALID)
@given(data=st.data())
@settings(max_examples=25)
def test_any_order_inside_the_window_changes_nothing(name: str, data: st.DataObject) -> None:
    """The window is as narrow as the order allows: an event further ahead would be dropped."""
    fixture = VALID[name]
    order = data.draw(st.permutations(range(len(fixture.events))))
    missing, ahead = set(order), 0
    for seq in order:
        ahead = max(ahead, seq - min(missing))
        missing.discard(seq)
    frames = [(seq, [fixture.events[seq]]) for seq in order]
    outcome = judge(fixture, frames, len(frames), Limits(window_events=ahead + 1))
    assert canonical_digest(outcome) == straight(fixture)
    if ahead > 0:
        outcome = judge(fixture, frames, len(frames), Limits(window_events=ahead))
        assert outcome.verdict != "commit"
        assert "missing_events" in {finding.code for finding in outcome.findings}


def split(events: Sequence[str], cut_after: Sequence[bool]) -> list[Frame]:
    frames: list[Frame] = []
    first = 0
    for seq in range(len(events)):
        if seq == len(events) - 1 or cut_after[seq]:
            frames.append((first, events[first : seq + 1]))
            first = seq + 1
    return frames


@pytest.mark.parametrize("name", [n for n, f in VALID.items() if len(f.events) <= SPLITS_EXHAUSTIVE_MAX])
def test_every_split_of_a_small_stream_into_frames_changes_nothing(name: str) -> None:
    fixture = VALID[name]
    wanted = straight(fixture)
    for cut_after in itertools.product((False, True), repeat=len(fixture.events) - 1):
        assert canonical_digest(judge(fixture, split(fixture.events, cut_after), len(fixture.events))) == wanted


@pytest.mark.parametrize("name", VALID)
@given(data=st.data())
@settings(max_examples=25)
def test_frames_split_repeated_and_disordered_change_nothing(name: str, data: st.DataObject) -> None:
    fixture = VALID[name]
    count = len(fixture.events)
    frames = split(fixture.events, data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    frames += data.draw(st.lists(st.sampled_from(frames), max_size=4))
    order = data.draw(st.permutations(frames))
    assert canonical_digest(judge(fixture, order, count)) == straight(fixture)


@given(data=st.data())
@settings(max_examples=150)
def test_streams_of_two_operations_interleaved_do_not_touch_each_other(data: st.DataObject) -> None:
    chosen = [VALID[data.draw(st.sampled_from(sorted(VALID)))] for _ in range(2)]
    open_streams = [(assembler_of(fixture), singles(fixture)) for fixture in chosen]
    turns = data.draw(st.permutations([0] * len(chosen[0].events) + [1] * len(chosen[1].events)))
    for which in turns:
        assembler, waiting = open_streams[which]
        assembler.feed(*waiting.pop(0))
    for fixture, (assembler, _) in zip(chosen, open_streams, strict=True):
        outcome = assembler.end(StreamEnd("eof", count=len(fixture.events)))
        assert canonical_digest(outcome) == straight(fixture)


def test_a_body_read_byte_by_byte_keeps_its_characters() -> None:
    body = (FOLDER / "chat-unicode-split.sse").read_bytes()
    decoder = SseDecoder()
    events = [event for place in range(len(body)) for event in decoder.feed(body[place : place + 1])]
    tools = json.loads((FOLDER / "tools.json").read_bytes())
    outcome = judge(Fixture("openai", tools, events, None, None, ""), [(0, events)], len(events))
    assert outcome.text == "før 🌊"
    assert [call.arguments for call in outcome.calls] == [{"city": "Tromsø 😀 🌊"}]
