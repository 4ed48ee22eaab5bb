"""Recorded streams to begin with, and what is done to them. Everything follows from the bytes of the input."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_choices import Choices

from turngate.domain.stream.body import body_payloads
from turngate.domain.stream.conformance import (
    Fixture,
    Report,
    UnreadableFixture,
    judge_fixture,
    read_fixture,
)

FIXTURES = Path(__file__).parents[1] / "conformance" / "fixtures"
EVENTS_MAX = 200
"""Events of a stream after its changes."""


class Base(NamedTuple):
    """A fixture and what the gate says of it untouched."""

    name: str
    fixture: Fixture
    report: Report

    @property
    def valid(self) -> bool:
        return self.report["status"] != "fail"


@lru_cache(maxsize=1)
def bases() -> tuple[Base, ...]:
    """Every fixture of the conformance tests that can be read, in any of its forms."""
    tools = json.loads((FIXTURES / "tools.json").read_bytes())
    found: list[Base] = []
    for path in sorted(FIXTURES.iterdir()):
        if path.suffix in (".sse", ".body"):
            profile = "gemini" if path.name.startswith("gemini") else "openai"
            events = body_payloads(path.read_bytes(), profile)
            fixture = Fixture(profile, tools, events, None, None, "")
        else:
            try:
                fixture = read_fixture(path.read_bytes())
            except UnreadableFixture:
                continue
        report = judge_fixture(fixture)
        if report.get("code") is None:
            found.append(Base(path.name, fixture, report))
    return tuple(found)


@lru_cache(maxsize=1)
def by_profile() -> Mapping[str, tuple[Base, ...]]:
    profiles = sorted({base.fixture.profile for base in bases()})
    return {profile: tuple(b for b in bases() if b.fixture.profile == profile) for profile in profiles}


@lru_cache(maxsize=1)
def binary_bodies() -> tuple[tuple[bytes, Base], ...]:
    """The recorded event streams of the fixtures, as bytes."""
    out: list[tuple[bytes, Base]] = []
    for base in bases():
        text = (FIXTURES / base.name).read_text() if base.name.endswith(".json") else "{}"
        fields = json.loads(text)
        if "eventstream_b64" in fields:
            out.append((base64.b64decode(fields["eventstream_b64"]), base))
    return tuple(out)


def pick_base(choices: Choices) -> Base:
    """Of every profile equally often."""
    profiles = by_profile()
    return choices.pick(profiles[choices.pick(tuple(profiles))])


# -- whole events ----------------------------------------------------------------------------------------------


def _drop(events: list[str], choices: Choices) -> None:
    del events[choices.below(len(events))]


def _repeat(events: list[str], choices: Choices) -> None:
    events.insert(choices.below(len(events) + 1), choices.pick(events))


def _swap(events: list[str], choices: Choices) -> None:
    one, other = choices.below(len(events)), choices.below(len(events))
    events[one], events[other] = events[other], events[one]


def _cut(events: list[str], choices: Choices) -> None:
    del events[choices.below(len(events)) + 1 :]


def _reverse(events: list[str], choices: Choices) -> None:
    one, other = sorted((choices.below(len(events)), choices.below(len(events))))
    events[one:other] = reversed(events[one:other])


EVENT_FAULTS: Sequence[Callable[[list[str], Choices], None]] = (_drop, _repeat, _swap, _cut, _reverse)
"""What may become of whole events on their way; the events themselves stay as they are."""


def disturb(events: Sequence[str], choices: Choices) -> list[str]:
    """Up to eight faults of whole events."""
    out = list(events)
    for _ in range(1 + choices.below(8)):
        if out and len(out) < EVENTS_MAX:
            choices.pick(EVENT_FAULTS)(out, choices)
    return out


def splice(base: Base, other: Base, choices: Choices) -> tuple[list[str], list[int]]:
    """Two streams of one profile in one: the start of one and the end of another, or both interleaved.

    Returns the events, and of each which stream it is from.
    """
    ones, others = list(base.fixture.events), list(other.fixture.events)
    if choices.flag():
        a, b = choices.below(len(ones) + 1), choices.below(len(others) + 1)
        return ones[:a] + others[b:], [0] * a + [1] * (len(others) - b)
    out: list[str] = []
    origin: list[int] = []
    while ones or others:
        which = choices.byte() & 1 if ones and others else int(not ones)
        out.append((others if which else ones).pop(0))
        origin.append(which)
    return out, origin


_NUMBER = re.compile(r'("(?:sequence_number|deltaSeq)": ?)([0-9]+)')


def stretch(events: Sequence[str], choices: Choices) -> list[str]:
    """Up to four events said several times in a row, each time as one of its own: numbers count on."""
    out = list(events)
    for _ in range(1 + choices.below(4)):
        if out and len(out) < EVENTS_MAX:
            at, more = choices.below(len(out)), 1 + choices.below(12)
            again = [_renumbered(out[at], by) for by in range(1, more + 1)]
            out[at + 1 :] = [*again, *(_renumbered(event, more) for event in out[at + 1 :])]
    return out


def _renumbered(event: str, by: int) -> str:
    return _NUMBER.sub(lambda found: f"{found[1]}{int(found[2]) + by}", event)


# -- inside an event -------------------------------------------------------------------------------------------

LEAVES: Sequence[Any] = (
    None, "", 0, 1, -1, True, False, [], {}, "stop", "tool_calls", "forecast", "call_1", "null", "{}", 1.5, 2**53,
    10**30, "\u2028", "\U0001f600", "é", "[DONE]", "\x00", [[]], [{}], {"": None},
)  # fmt: skip
RAW_LEAVES: Sequence[str] = (
    "NaN", "-Infinity", "1e999", '"\\ud800"', '"\\udc00\\ud800"', "1" * 5000, "[" * 300 + "]" * 300,
    '{"a":1,"a":2}', "-0", "1E400", "01", "tru", '"\t"', "[" * 2000 + "]" * 2000, "-" + "9" * 400, "",
)  # fmt: skip
TEXTS: Sequence[str] = (
    '"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "e", "-", " ", "\n", "\x00", "null", "true", "NaN", "\\u",
    "\\ud83d", "é", "\U0001f600", "}{", '":', '{"city":"x"}', '"city":',
)  # fmt: skip


def _paths(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [here]
    if isinstance(value, dict):
        for key, child in value.items():
            found += _paths(child, (*here, key))
    elif isinstance(value, list):
        for place, child in enumerate(value):
            found += _paths(child, (*here, place))
    return found


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _edited_text(text: str, choices: Choices) -> str:
    """Characters put in, taken out or replaced."""
    at = choices.below(len(text) + 1)
    kind = choices.below(4)
    if kind == 0:
        return text[:at] + choices.pick(TEXTS) + text[at:]
    if kind == 1:
        return text[:at] + text[at + 1 + choices.below(4) :]
    if kind == 2:
        return text[:at] + chr(choices.byte() or 0x20) + text[at + 1 :]
    return text[:at] + text[at // 2 : at] + text[at:]


def _new_value(old: Any, value: Any, choices: Choices) -> Any:
    if isinstance(old, str) and choices.flag():
        return _edited_text(old, choices)
    if isinstance(old, int) and choices.flag():
        return old + choices.below(5) - 2
    if choices.flag():
        return _at(value, choices.pick(_paths(value)))
    return choices.pick(LEAVES)


_RAW_MARK = "\ue000raw\ue000"


def edit_value(event: str, choices: Choices) -> str:
    """One value of a JSON event replaced, removed, renamed or doubled; the event itself where it is not JSON."""
    try:
        value = json.loads(event)
        path = choices.pick(_paths(value))
    except (ValueError, RecursionError):
        return edit_characters(event, choices)
    if not path:
        return json.dumps(choices.pick(LEAVES))
    holder, last = _at(value, path[:-1]), path[-1]
    kind = choices.below(6)
    raw = None
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, dict):
        holder[choices.pick([str(step) for one in _paths(value) for step in one if isinstance(step, str)] or ["x"])] = (
            holder.pop(last)
        )
    elif kind == 2 and isinstance(holder, list):
        holder.insert(choices.below(len(holder) + 1), holder[last])
    elif kind == 3:
        raw = choices.pick(RAW_LEAVES)
        holder[last] = _RAW_MARK
    else:
        holder[last] = _new_value(holder[last], json.loads(event), choices)
    text = json.dumps(value, ensure_ascii=choices.flag())
    return text if raw is None else text.replace(json.dumps(_RAW_MARK), raw).replace(f'"{_RAW_MARK}"', raw)


def edit_characters(event: str, choices: Choices) -> str:
    return _edited_text(event, choices)


def change(fixture: Fixture, choices: Choices) -> Fixture:
    """Up to eight changes, inside events and of whole ones."""
    events = list(fixture.events)
    for _ in range(1 + choices.below(8)):
        if not events or len(events) > EVENTS_MAX:
            break
        kind = choices.below(8)
        if kind < 5:
            at = choices.below(len(events))
            events[at] = edit_value(events[at], choices)
        elif kind < 7:
            choices.pick(EVENT_FAULTS)(events, choices)
        else:
            at = choices.below(len(events))
            events[at] = edit_characters(events[at], choices)
    forced = "forced" if choices.byte() == 255 else fixture.tool_choice
    return replace(fixture, events=events, tool_choice=forced)
