"""Raw events of a stream without what they say: every value becomes a placeholder of the same length.

Kept: the text of every event but its values (syntax, order, keys of the wire, how a character is written), ids, words
that tell events apart, names of tools, the keys a tool schema names, and values that a schema constrains by more than
type and length. So the gate finds the same. Where it would not, nothing is given out (`RedactionChanges`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import cast

import orjson

from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.stream import operations as op
from turngate.domain.stream import redact_tables as tables
from turngate.domain.stream.conformance import Fixture, Report, judge_fixture
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.jsonscan import Path, Token, scan, units, written
from turngate.domain.stream.placeholders import OTHER, PLAIN, Letters, Names, masked, masked_junk, masked_number
from turngate.domain.stream.schema_places import SchemaPlaces, named_keys
from turngate.schemas.errors import Refused

Slot = tuple[int, int]

_STEP = re.compile(r"""\.?(?:(?P<key>[^.\[\]'"]+)|\[(?P<place>[0-9]+)\]|\[(?P<q>['"])(?P<quoted>.*?)(?P=q)\])""")


class RedactionChanges(Refused):
    """The redacted stream would not be judged as the original is, so it is not given out."""

    code = "redaction_changes_findings"


def redact_fixture(fixture: Fixture) -> Fixture:
    """The fixture with placeholders. Raises RedactionChanges. `meta` is left out: nothing says what it holds."""
    events = redact_events(fixture.profile, fixture.tool_schemas, fixture.events)
    redacted = replace(fixture, events=events, meta=None)
    if essence(judge_fixture(redacted)) != essence(judge_fixture(fixture)):
        raise RedactionChanges("with placeholders the findings would differ: hand the frames over in another way")
    return redacted


def essence(report: Report) -> object:
    """What redaction may not change of a report: all but arguments, text and usage."""
    calls = cast("list[Mapping[str, object]]", report["calls"])
    findings = cast("list[Mapping[str, object]]", report["findings"])
    turn = cast("Mapping[str, object]", report["turn"])
    return (
        [report[name] for name in ("status", "applicable", "executable")],
        [turn[name] for name in ("verdict", "stop")],
        [[call[name] for name in ("slot", "id", "name")] for call in calls],
        [[finding.get(name) for name in ("code", "severity", "slot", "eventIndex")] for finding in findings],
    )


def redact_events(profile: str, tool_schemas: Mapping[str, object], events: Sequence[str]) -> list[str]:
    """The events, each as long as it was, in characters and in bytes of UTF-8.

    tool_schemas: by tool name, as the request declared them. A profile this build does not read is redacted too, by
    the tables alone.
    """
    stream = _Stream(profile, tool_schemas, events)
    return [stream.redacted(index) for index in range(len(events))]


@dataclass(slots=True)
class _Reading:
    """What a normaliser read of one event: pieces of argument text with their slots and places, and other text."""

    arguments: list[tuple[Slot, str, int]] = field(default_factory=list[tuple[Slot, str, int]])
    texts: list[str] = field(default_factory=list[str])


class _Stream:
    def __init__(self, profile: str, tool_schemas: Mapping[str, object], events: Sequence[str]) -> None:
        self._events = events
        self._sentinels: frozenset[str] = frozenset()
        self._places = {name: SchemaPlaces(schema) for name, schema in tool_schemas.items()}
        self._unknown = SchemaPlaces(None)
        self._names = Names(frozenset(key for schema in tool_schemas.values() for key in named_keys(schema)))
        self._called: dict[Slot, list[str]] = {}
        self._arguments: dict[Slot, str] = {}
        self._texts: dict[Slot, str] = {}
        self._done: dict[Slot, int] = {}
        self._readings = self._read(profile, events)
        self._masked = {slot: self._mask(text, self._of_slot(slot), PLAIN) for slot, text in self._arguments.items()}
        self._said = tuple({*self._texts.values(), *self._arguments.values()})

    # -- what the stream says ----------------------------------------------------------------------------------

    def _read(self, profile: str, events: Sequence[str]) -> list[_Reading]:
        try:
            spec = find_normaliser(profile)
        except UnknownNormaliser:
            return [_Reading() for _ in events]
        self._sentinels = spec.facts.sentinels
        normaliser = spec.build()
        pieces: dict[tuple[Slot, bool], list[str]] = {}
        readings: list[_Reading] = []
        waiting: list[tuple[object, _Reading]] = []
        numbered: dict[int, _Reading] = {}
        for raw in events:
            reading = _Reading()
            readings.append(reading)
            try:
                value: object = orjson.loads(raw)
            except orjson.JSONDecodeError:
                continue
            operations: list[op.Operation] = []
            normaliser.event(value, raw, operations)
            for one in operations:
                self._note(one, _source(one, value, reading, waiting), pieces)
            number = cast("dict[str, object]", value).get("sequence_number") if isinstance(value, dict) else None
            known = numbered.setdefault(number, reading) if type(number) is int else reading
            if not operations and known is not reading:  # sent again: it keeps the placeholder it had
                reading.arguments = [piece for piece in known.arguments if _holds(value, piece[1])]
            elif not operations:
                waiting.append((value, reading))
        for (slot, is_call), texts in pieces.items():
            (self._arguments if is_call else self._texts)[slot] = "".join(texts)
        return readings

    def _note(self, one: op.Operation, reading: _Reading, pieces: dict[tuple[Slot, bool], list[str]]) -> None:
        if isinstance(one, op.Start | op.Identify) and one.name:
            self._called.setdefault((one.choice, one.block), []).append(one.name)
        elif isinstance(one, op.Delta) and one.text:
            slot = (one.choice, one.block)
            is_call = one.field == "arguments"
            pieces.setdefault((slot, is_call), []).append(one.text)
            if is_call:
                reading.arguments.append((slot, one.text, self._done.get(slot, 0)))
                self._done[slot] = self._done.get(slot, 0) + len(one.text)
            else:
                reading.texts.append(one.text)

    def _of_slot(self, slot: Slot) -> SchemaPlaces:
        """The schema of a call, its name read as the gate reads it; without any where that is not one tool."""
        names = self._called.get(slot, [])
        readings = {"".join(names)}
        if all(later.startswith(earlier) for earlier, later in pairwise(names)):
            readings.update(names[-1:])
        known = [name for name in readings if name in self._places]
        return self._places[known[0]] if len(known) == 1 else self._unknown

    # -- one event ---------------------------------------------------------------------------------------------

    def redacted(self, index: int) -> str:
        """One event."""
        raw, reading = self._events[index], self._readings[index]
        if raw in self._sentinels:
            return raw
        tokens = scan(raw)
        edits = self._argument_edits(raw, tokens, reading)
        covered = sorted(edits)
        for token in tokens:
            if token.kind in ("key", "container") or _inside(token, covered):
                continue
            edits[token.start, token.end] = self._value(raw, token, reading)
        edits.update(self._loose_containers(raw, tokens, reading, covered))
        return _edited(raw, edits)

    def _argument_edits(self, raw: str, tokens: list[Token], reading: _Reading) -> dict[tuple[int, int], str]:
        """The places of the event that a normaliser read as arguments, with their part of the slot's placeholder."""
        edits: dict[tuple[int, int], str] = {}
        for slot, text, at in reading.arguments:
            part = self._masked[slot][at : at + len(text)]
            site = self._site(raw, tokens, text, edits)
            if site is None:
                continue
            if site.kind == "text":
                edits[site.start, site.end] = _rewritten(raw, site, part)
            else:
                edits[site.start, site.end] = part
        return edits

    @staticmethod
    def _site(raw: str, tokens: list[Token], text: str, taken: Mapping[tuple[int, int], str]) -> Token | None:
        """Where the event holds this argument text: under a key for arguments rather than elsewhere."""
        found: list[Token] = []
        for token in tokens:
            if (token.start, token.end) in taken or token.kind in ("key", "junk"):
                continue
            held = _text_of(raw, token) if token.kind == "text" else raw[token.start : token.end]
            if held == text:
                found.append(token)
        named = [token for token in found if tables.last_key(token.path) in tables.ARGUMENT_KEYS]
        texts = [token for token in found if token.kind == "text"]
        return next(iter((*named, *texts, *found)), None)

    def _value(self, raw: str, token: Token, reading: _Reading) -> str:
        old = raw[token.start : token.end]
        if token.kind == "word":
            return old
        if token.kind == "junk":
            return masked_junk(old, PLAIN)
        if token.kind == "number":
            return old if tables.keeps_number(token.path) else masked_number(old, PLAIN)
        text = _text_of(raw, token)
        program = token.path == ("code",) and '"message"' not in raw  # a hosted tool's code, not that of an error
        if (tables.keeps_text(token.path, text) and not program) or self._keeps_at(raw, token, reading):
            return old
        letters = self._letters(text, reading)
        if tables.last_key(token.path) in tables.ARGUMENT_KEYS:
            return _rewritten(raw, token, self._whole_arguments(raw, token.path, text, reading, letters))
        return _rewritten(raw, token, masked(text, letters))

    def _letters(self, text: str, reading: _Reading) -> Letters:
        """A text that repeats what its stream says stays equal to it; one that says something else stays unequal."""
        return PLAIN if text in reading.texts or any(text in said for said in self._said) else OTHER

    def _whole_arguments(self, raw: str, path: Path, text: str, reading: _Reading, letters: Letters) -> str:
        """Argument text that is no piece of a slot: the whole of one again, or what no normaliser has taken."""
        for slot, known in self._arguments.items():
            if known == text:
                return self._masked[slot]
        return self._mask(text, self._nearby(raw, path, reading), letters)

    def _nearby(self, raw: str, path: Path, reading: _Reading) -> SchemaPlaces:
        """The schema of the tool that is named beside a value, or whose arguments this event goes on with."""
        try:
            holder: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return self._unknown
        for step in path[:-1]:
            holder = cast("dict[str | int, object]", holder)[step]
        name = cast("dict[str, object]", holder).get("name") if isinstance(holder, dict) else None
        if isinstance(name, str) and name:
            return self._places.get(name, self._unknown)
        slots = {slot for slot, _, _ in reading.arguments} or set(self._called)
        return self._of_slot(slots.pop()) if len(slots) == 1 else self._unknown

    def _keeps_at(self, raw: str, token: Token, reading: _Reading) -> bool:
        """Whether a value that comes with its place in the arguments lies where the schema constrains it."""
        if len(token.path) < 3 or token.path[-3] not in tables.PATHED_KEYS:
            return False
        try:
            holder: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return False
        for step in token.path[:-1]:
            holder = cast("dict[str | int, object]", holder)[step]
        place = next((holder[key] for key in tables.PATHED_PLACES if isinstance(holder, dict) and key in holder), None)
        path = _place(place) if isinstance(place, str) else None
        return path is not None and self._nearby(raw, token.path[:-2], reading).keeps(path)

    def _loose_containers(
        self, raw: str, tokens: list[Token], reading: _Reading, covered: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """Arguments as JSON that the normaliser does not take by their text, and what is no structure of the provider's
        at all: masked as argument text is."""
        edits: dict[tuple[int, int], str] = {}
        for token in tokens:
            if token.kind != "container" or not token.path or _inside(token, covered):
                continue
            text = raw[token.start : token.end]
            if tables.is_free(token.path):
                edits[token.start, token.end] = self._mask(text, self._unknown, PLAIN)
            elif token.path[-1] in tables.ARGUMENT_KEYS:
                edits[token.start, token.end] = self._mask(text, self._nearby(raw, token.path, reading), PLAIN)
        return edits

    # -- argument text -----------------------------------------------------------------------------------------

    def _mask(self, text: str, places: SchemaPlaces, letters: Letters) -> str:
        """Argument text, whole or broken, with the schema of its tool."""
        edits: dict[tuple[int, int], str] = {}
        for token in scan(text):
            old = text[token.start : token.end]
            if token.kind == "key":
                key = _text_of(text, token)
                if not places.keeps_key(token.path, key):
                    edits[token.start, token.end] = _rewritten(text, token, self._names.placeholder(key))
            elif token.kind == "junk":
                edits[token.start, token.end] = masked_junk(old, letters)
            elif token.kind == "number" and not places.keeps(token.path):
                edits[token.start, token.end] = masked_number(old, letters)
            elif token.kind == "text" and not places.keeps(token.path):
                edits[token.start, token.end] = _rewritten(
                    text, token, masked(_text_of(text, token), letters), keep_short=True
                )
        return _edited(text, edits)


def _source(
    one: op.Operation, value: object, reading: _Reading, waiting: Sequence[tuple[object, _Reading]]
) -> _Reading:
    """The reading of the event that a piece came with: a normaliser that orders events may have kept it waiting."""
    if (
        not isinstance(one, op.Delta)
        or one.field not in ("text", "arguments")
        or not waiting
        or _holds(value, one.text)
    ):
        return reading
    return next((of for earlier, of in waiting if _holds(earlier, one.text)), reading)


def _holds(value: object, text: str) -> bool:
    """Whether the text is a string of this value's own members."""
    return isinstance(value, dict) and text in cast("dict[str, object]", value).values()


def _inside(token: Token, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= token.start and token.end <= end for start, end in spans)


def _edited(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    """`text` with its parts exchanged; of two that overlap the one that begins first and is longer counts."""
    out: list[str] = []
    at = 0
    for (start, end), new in sorted(edits.items(), key=lambda item: (item[0][0], -item[0][1])):
        if start < at:
            continue
        out += (text[at:start], new)
        at = end
    out.append(text[at:])
    return "".join(out)


def _text_of(raw: str, token: Token) -> str:
    """What a string says; an escape that is none of JSON's stands for itself."""
    return "".join(u.char or raw[u.start : u.end] for u in units(raw, token.start, token.end))


def _rewritten(raw: str, token: Token, new: str, *, keep_short: bool = False) -> str:
    """A string's inside with other characters, each written as the one before it was.

    new: as long as `_text_of` the token. keep_short: escapes of two characters stay, because one more encoding around
    this text could not write others as long as they are.
    """
    out: list[str] = []
    at = 0
    for unit in units(raw, token.start, token.end):
        old = raw[unit.start : unit.end]
        if unit.char is None:
            out.append(old)
            at += len(old)
            continue
        char = new[at]
        at += 1
        kept = char == unit.char or (keep_short and len(old) == 2)
        out.append(old if kept else written(old, char))
    return "".join(out)


def _place(text: str) -> Path | None:
    """A JSON path of keys and numbers (`$.a.b[0]`, `$['a']`) as a path; None for any other."""
    path: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        at = step.end()
        path.append(int(step["place"]) if step["place"] else step["key"] or step["quoted"] or "")
    return tuple(path)
