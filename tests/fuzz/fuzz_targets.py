"""What is fuzzed, and what must hold: each target takes the bytes of one input and raises Broken, or nothing.

relay     frames of a recorded stream dropped, repeated, reordered, split and cut between dispatcher and gate, where
          every event is numbered: what still commits is the very same turn.
stream    the events themselves changed, reordered, dropped, spliced, before anything numbers them: what still runs is
          what a plain reading of the changed events says; profiles that number their events run the same or nothing.
runs      events said again and again and then changed: those that only go on with a block are taken at once, and what
          comes of them is what comes of one after the other.
body      the bytes of a body: split anywhere nothing changes; an event stream with flipped, cut or swapped bytes runs
          the same or nothing.
bytes     any bytes to every reader of bodies and fixtures: refused or read, never another exception.
json      argument text: taken exactly where the standard library and the rules of the gate take it, with equal values.
schema    tool schemas: compiled or refused with a path; what is not on the list is refused wherever it stands.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from fuzz_choices import Choices, require
from fuzz_schemas import schema
from fuzz_streams import Base, bases, binary_bodies, by_profile, change, disturb, pick_base, splice, stretch
from plain_reading import contradiction, plain_reading

from turngate.domain.stream import Assembler, Limits, Outcome, Preview, StreamEnd, compile_toolset
from turngate.domain.stream.body import SERVER_SENT, body_decoder, body_payloads
from turngate.domain.stream.conformance import (
    Fixture,
    Report,
    UnreadableFixture,
    judge_fixture,
    read_fixture,
)
from turngate.domain.stream.eventstream import EventStreamDecoder, event_texts, is_event_stream
from turngate.domain.stream.explain import explain_fixture
from turngate.domain.stream.sse_text import SseDecoder
from turngate.domain.stream.strict_json import RejectedJson, parse_object
from turngate.schemas.errors import Refused
from turngate.testing.streams.runs import taken

JSON = "application/json"
INPUT_SECONDS_MAX = 5.0
"""Processor time of one input. The slowest take milliseconds; a fuzzer's instrumentation makes that tens."""

SELF_NUMBERED = {"canonical": '"deltaSeq"', "openai-responses": '"sequence_number"'}
"""Profiles whose own events are numbered, and how: one that is lost, repeated or moved on the way is noticed."""
NAMED_EVENTS = frozenset({"openai", "gemini"})
"""Profiles whose every event names its response, and which take another name as a collision."""


# -- what runs -------------------------------------------------------------------------------------------------


def check_report(report: Report) -> None:
    """What must hold of every report, and of the calls of one that lets them run."""
    json.dumps(report, allow_nan=False).encode()
    if not report["executable"]:
        return
    calls = runs(report)
    turn: Any = report["turn"]
    findings: Any = report["findings"]
    require(report["status"] == "pass" and report["applicable"] is True, "runs without passing")
    require((turn["verdict"], turn["stop"]) == ("commit", "tool_calls"), "runs without a commit for tool calls")
    require(not any(f["severity"] == "error" for f in findings), "runs beside an error")
    ids = [call["id"] for call in calls]
    require(all(ids) and len(set(ids)) == len(ids), "calls without an id of their own")
    for call in calls:
        require(bool(call["name"]), "a call without a name")
        value = strict_value(call["argumentsRaw"] or "{}")
        require(value == [call["arguments"]], "arguments that their text does not say")


def runs(report: Report) -> list[dict[str, Any]]:
    calls: Any = report["calls"]
    return list(calls) if report["executable"] else []


def named(calls: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(call["id"], call["name"], call["argumentsRaw"]) for call in calls]


def judged(fixture: Fixture) -> Report:
    report = judge_fixture(fixture)
    check_report(report)
    return report


# -- relay -----------------------------------------------------------------------------------------------------


def relay(data: bytes) -> None:
    choices = Choices(data)
    base = pick_base(choices)
    count = len(base.fixture.events)
    straight = _straight(base.name)
    frames = _frames(base.fixture.events, choices)
    known = count if choices.flag() else None
    outcome, shown = _relayed(base.fixture, frames, known)
    if outcome.verdict != "commit":
        require(not outcome.calls and not outcome.blocks, "blocks of a turn that does not commit")
        return
    _check_shown(outcome, shown)
    if straight.verdict == "commit" or known is not None:
        require(straight.verdict == "commit", "disorder made a turn of a stream that is none")
        same = [replace(block, arguments=None) for block in outcome.blocks]
        require(same == [replace(block, arguments=None) for block in straight.blocks], "disorder changed the turn")


@cache
def _straight(name: str) -> Outcome:
    fixture = next(base.fixture for base in bases() if base.name == name)
    return _relayed(fixture, [(0, fixture.events)], len(fixture.events))[0]


def _frames(events: Sequence[str], choices: Choices) -> list[tuple[int, Sequence[str]]]:
    cuts = choices.cuts(len(events))
    frames: list[tuple[int, Sequence[str]]] = [(a, events[a:b]) for a, b in pairwise(cuts)]
    for _ in range(choices.below(6)):
        kind, at = choices.below(4), choices.below(len(frames)) if frames else 0
        if not frames:
            break
        if kind == 0 and choices.flag():
            del frames[at]
        elif kind == 1:
            frames.insert(choices.below(len(frames) + 1), frames[at])
        elif kind == 2:
            frames.insert(choices.below(len(frames)), frames.pop(at))
        else:
            first = choices.below(len(events))
            last = min(first + 1 + choices.below(4), len(events))
            frames.insert(at, (first, events[first:last]))
    return frames


def _relayed(
    fixture: Fixture, frames: Sequence[tuple[int, Sequence[str]]], count: int | None
) -> tuple[Outcome, list[Preview]]:
    assembler = Assembler(
        profile=fixture.profile, tools=compile_toolset(fixture.tool_schemas), tool_choice=fixture.tool_choice,
        limits=Limits(window_events=64), alternatives="note",
    )  # fmt: skip
    shown: list[Preview] = []
    for first, events in frames:
        shown += assembler.feed(first, events)
    require(not assembler.pending().calls, "calls of a stream that is still open")
    if fixture.fault is not None:
        return assembler.end(StreamEnd("reset", error_class=fixture.fault)), shown
    end = StreamEnd("eof" if count is not None else "ownerGone", count=count, evidence_closed=count is None)
    return assembler.end(end), shown


def _check_shown(outcome: Outcome, shown: Sequence[Preview]) -> None:
    """What a reader of the previews has at a commit is the text of each block that was shown, to the letter."""
    texts: dict[int, str] = {}
    for step in shown:
        if step.kind == "tool_call":
            require(step.text == "", "argument text in a preview")
        elif step.phase == "delta":
            have = texts.get(step.block_index, "")
            require(step.text_offset <= len(have), "a preview leaves a gap")
            texts[step.block_index] = have + step.text[len(have) - step.text_offset :]
    if outcome.stop == "filtered":
        return  # what was shown may be void
    blocks = {block.index: block.text for block in outcome.blocks}
    for index, text in texts.items():
        require(blocks.get(index) == text, "what was shown is not what was committed")


# -- stream ----------------------------------------------------------------------------------------------------


def stream(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.below(4)
    base = pick_base(choices)
    if kind == 0:
        _whole_events(base, disturb(base.fixture.events, choices))
    elif kind == 1:
        other = choices.pick(by_profile()[base.fixture.profile])
        _spliced(base, other, *splice(base, other, choices))
    else:
        _read_plainly(change(base.fixture, choices))


def _read_plainly(fixture: Fixture) -> Report:
    report = judged(fixture)
    calls = runs(report)
    if calls:
        what = contradiction(plain_reading(fixture.profile, fixture.events), calls)
        require(what is None, f"{fixture.profile}: {what} than a plain reading")
    return report


def _whole_events(base: Base, events: list[str]) -> None:
    report = _read_plainly(replace(base.fixture, events=events))
    number = SELF_NUMBERED.get(base.fixture.profile)
    if number is not None and number in base.fixture.events[0] and base.report["executable"] and report["executable"]:
        require(named(runs(report)) == named(runs(base.report)), "numbered events were lost and other calls run")
    if base.report["executable"] and list(base.fixture.events[: len(events)]) == events and report["executable"]:
        require(named(runs(report)) == named(runs(base.report)), "a stream that was cut runs something else")


def _spliced(base: Base, other: Base, events: list[str], origin: list[int]) -> None:
    fixture = replace(
        base.fixture, events=events, tool_schemas={**other.fixture.tool_schemas, **base.fixture.tool_schemas}
    )
    report = _read_plainly(fixture)
    if not report["executable"] or base.fixture.profile not in NAMED_EVENTS:
        return
    names = {_response_of(event) for event in events} - {None}
    require(len(names) <= 1, "a stream of two responses runs")


def _response_of(event: str) -> str | None:
    try:
        value = json.loads(event)
    except (ValueError, RecursionError):
        return None
    return (value.get("id") or value.get("responseId") or None) if isinstance(value, dict) else None


# -- runs ------------------------------------------------------------------------------------------------------

TIGHT = Limits(turn_bytes=400, arguments_bytes=100)


def runs_of_deltas(data: bytes) -> None:
    choices = Choices(data)
    base = pick_base(choices)
    fixture = replace(base.fixture, events=stretch(base.fixture.events, choices))
    if choices.flag():
        fixture = change(fixture, choices)
    cuts = choices.cuts(len(fixture.events))
    limits = TIGHT if choices.byte() == 255 else Limits()
    require(taken(fixture, cuts, limits, at_once=True) == taken(fixture, cuts, limits, at_once=False), "a run differs")


# -- body ------------------------------------------------------------------------------------------------------


def body(data: bytes) -> None:
    choices = Choices(data)
    if choices.flag():
        _binary(choices)
    else:
        _text_body(choices)


def _text_body(choices: Choices) -> None:
    """Events written as server-sent events in one of the ways that are allowed come out as they went in."""
    base = pick_base(choices)
    events = [event for event in base.fixture.events if "\r" not in event and event]
    end = choices.pick([b"\n", b"\r\n", b"\r"])
    out: list[bytes] = [b"\xef\xbb\xbf"] if choices.flag() else []
    for event in events:
        kind = choices.below(5)
        out += [b": beat" + end] if kind == 1 else [b"event: x" + end, b"id: 1" + end] if kind == 2 else []
        lines = event.encode("utf-8", "surrogatepass").split(b"\n")
        out += [(b"data:" if kind == 3 and line[:1] != b" " else b"data: ") + line + end for line in lines]
        out.append(end)
    whole = b"".join(out)
    got, refused = _decoded(SseDecoder(1 << 20), whole, choices.cuts(len(whole)))
    sound = [event for event in events if event.isascii() or _is_unicode(event)]
    require(refused is not None or got == events, "events differ from what was sent")
    require(refused is None or sound != events, "sound events were refused")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _binary(choices: Choices) -> None:
    whole, base = choices.pick(binary_bodies())
    changed = bytearray(whole)
    for _ in range(choices.below(4)):
        kind = choices.below(4)
        at = choices.below(len(changed)) if changed else 0
        if kind == 0 and changed:
            changed[at] ^= 1 << choices.below(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2 and changed:
            changed[at] = choices.byte()
        elif kind == 3:
            del changed[at : at + 1 + choices.below(40)]
    events, fault = event_texts(bytes(changed))
    split, refused = _decoded(EventStreamDecoder(1 << 20), bytes(changed), choices.cuts(len(changed)))
    require((events, fault) == (split, refused), "where the bytes were split made a difference")
    report = judged(replace(base.fixture, events=events, fault=fault))
    if bytes(changed) == whole:
        require(report["status"] == base.report["status"], "the same bytes are judged otherwise")
    elif report["executable"]:
        sound, _ = event_texts(whole)
        require(events == sound[: len(events)], "an event of a changed body was read as another one")
        same = not base.report["executable"] or named(runs(report)) == named(runs(base.report))
        require(same, "a changed body runs something else")


def _decoded(decoder: Any, whole: bytes, cuts: Sequence[int]) -> tuple[list[str], str | None]:
    events: list[str] = []
    try:
        for a, b in pairwise(cuts):
            events += decoder.feed(whole[a:b])
        events += decoder.end()
    except Refused as error:
        return events, error.code
    return events, None


# -- bytes -----------------------------------------------------------------------------------------------------


def any_bytes(data: bytes) -> None:
    choices = Choices(data)
    profile = choices.pick(tuple(by_profile()))
    size = 1 + choices.below(64)
    head = b'{"profile":"%b","tool_schemas":{},"chunks":[' % profile.encode()
    raw = choices.rest()
    try:
        fixture = read_fixture(raw if size & 1 else head + raw + b"]}")
        judged(fixture)
        explain_fixture(fixture)
    except UnreadableFixture:
        pass
    cuts = [*range(0, len(raw), size), len(raw)]
    texts, fault = event_texts(raw)
    require((texts, fault) == _decoded(EventStreamDecoder(1 << 20), raw, cuts), "where bytes are split matters")
    require(not texts or is_event_stream(raw), "events of what is no event stream")
    whole = _decoded(SseDecoder(1 << 20), raw, [0, len(raw)])
    require(whole == _decoded(SseDecoder(1 << 20), raw, cuts), "where text is split makes a difference")
    try:
        events = body_payloads(raw, profile)
        for kind in (SERVER_SENT, JSON):
            decoder = body_decoder(profile, kind)
            if decoder is not None:
                again, straight = body_decoder(profile, kind), _decoded(decoder, raw, [0, len(raw)])
                require(straight == _decoded(again, raw, cuts), "where a body is split makes a difference")
    except Refused:
        return
    judged(Fixture(profile, {"forecast": True}, events, None, None, ""))


# -- json ------------------------------------------------------------------------------------------------------

DEPTH_MAX, BYTES_MAX = 16, 4096
_TOKENS = (
    "{", "}", "[", "]", ":", ",", '"a"', '"b"', '"a":', '"b":', "1", "-1", "0", "1.5", "1e5", "1e999", "NaN",
    "true", "null", "Infinity", "-Infinity", " ", "\n", '"\\u0041"', '"\\ud800"', '"\\ud83d\\ude00"', '"é"', "\\",
    '"', "\x00", "01", "-0", "1E400", "\ufeff", "\ud800", "9" * 400, "9" * 5000, "\u2028", "{}", "[]",
)  # fmt: skip


def strict_json(data: bytes) -> None:
    choices = Choices(data)
    if choices.flag():
        text = choices.rest().decode("utf-8", "surrogatepass" if len(data) & 1 else "replace") if _utf8(data) else ""
    else:
        pieces: list[str] = []
        while not choices.spent:
            pieces.append(choices.pick(_TOKENS))
        text = "".join(pieces)
    wanted = strict_value(text) if len(text.encode("utf-8", "surrogatepass")) <= BYTES_MAX else None
    if wanted is not None and (not isinstance(wanted[0], dict) or _depth(wanted[0]) > DEPTH_MAX):
        wanted = None
    try:
        found: Any = parse_object(text, bytes_max=BYTES_MAX, depth_max=DEPTH_MAX)
    except RejectedJson:
        require(wanted is None, "a sound object was refused")
        return
    require(wanted is not None, "text was taken that is no strict JSON object")
    require(repr(found) == repr(wanted[0] if wanted else None), "an object was read with other values")


def _utf8(data: bytes) -> bool:
    try:
        data[1:].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return len(data) % 2 == 0
    return True


def strict_value(text: str) -> list[Any] | None:
    """The value in a list, by the standard library and the rules said once more; None where they refuse it."""

    def refuse(_: str) -> Any:
        raise ValueError

    def finite(word: str) -> float:
        number = float(word)
        if math.isinf(number):
            raise ValueError
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        text.encode()
        value = json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=unique)
        repr(value).encode()
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return [value]


def _depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)


# -- all -------------------------------------------------------------------------------------------------------


def timed(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, broken also where one input takes too long."""

    def run(data: bytes) -> None:
        begin = time.process_time()
        target(data)
        require(time.process_time() - begin < INPUT_SECONDS_MAX, "an input takes too long")

    return run


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "relay": timed(relay),
    "stream": timed(stream),
    "runs": timed(runs_of_deltas),
    "body": timed(body),
    "bytes": timed(any_bytes),
    "json": timed(strict_json),
    "schema": timed(schema),
}
