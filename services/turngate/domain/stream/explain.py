"""The history of every slot of a stream, for a person: which event did what, where identity came from, what blocked.

Holds places, states, counts and the names and ids of calls; never argument text or prose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import orjson

from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.stream import operations as op
from turngate.domain.stream.conformance import Fixture, judge_fixture
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.slots import Limits, Slot, Slots
from turngate.domain.stream.strict_json import event_fault


@dataclass(slots=True)
class _Run:
    """Pieces of content of one slot that follow one another."""

    first: int
    last: int
    pieces: int = 0
    characters: int = 0


@dataclass(slots=True)
class _History:
    lines: list[str] = field(default_factory=list[str])
    run: _Run | None = None

    def piece(self, event: int, text: str) -> None:
        run = self.run
        if run is None:
            run = self.run = _Run(event, event)
        run.last = event
        run.pieces += 1
        run.characters += len(text)

    def say(self, event: int, text: str) -> None:
        self.settle()
        self.lines.append(f"event {event}: {text}")

    def settle(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            where = f"event {run.first}" if run.first == run.last else f"events {run.first} to {run.last}"
            noun = "piece" if run.pieces == 1 else "pieces"
            self.lines.append(f"{where}: {run.pieces} {noun}, {run.characters} characters")


def explain_fixture(fixture: Fixture) -> list[str]:
    """The lines. Of a profile this build does not read there are none."""
    try:
        return _Explainer(fixture).lines()
    except UnknownNormaliser:
        return []


class _Explainer:
    def __init__(self, fixture: Fixture) -> None:
        spec = find_normaliser(fixture.profile)
        self._fixture = fixture
        self._sentinels = spec.facts.sentinels
        self._normaliser = spec.build()
        self._slots = Slots(Limits(), blocks_close_with_turn=spec.facts.blocks_close_with_turn)
        self._histories: dict[tuple[int, int], _History] = {}
        self._turn = _History()

    def lines(self) -> list[str]:
        for event, raw in enumerate(self._fixture.events):
            self._event(event, raw)
        out = ["turn", *(f"  {line}" for line in self._turn.lines)]
        report = judge_fixture(self._fixture)
        findings = cast("Sequence[Mapping[str, object]]", report["findings"])
        turn = cast("Mapping[str, object]", report["turn"])
        passed = {call["slot"] for call in cast("Sequence[Mapping[str, object]]", report["calls"])}
        loose = [finding for finding in findings if not self._is_of_a_slot(finding.get("slot"))]
        out += [f"  {_finding(finding)}" for finding in loose]
        out.append(f"  gate: verdict {turn['verdict']}, stop {turn['stop']}")
        for number, choice in sorted(self._slots.choices.items()):
            for index, slot in sorted(choice.slots.items()):
                history = self._histories.setdefault((number, index), _History())
                history.settle()
                out.append(_title(slot))
                out += [f"  {line}" for line in history.lines]
                out += [f"  {_finding(finding)}" for finding in findings if finding.get("slot") == slot.label]
                if slot.kind == "tool_call":
                    out.append(f"  gate: {_end(slot, slot.label in passed, findings)}")
        return out

    def _is_of_a_slot(self, label: object) -> bool:
        return any(slot.label == label for choice in self._slots.choices.values() for slot in choice.slots.values())

    def _event(self, event: int, raw: str) -> None:
        slots = self._slots
        slots.event_index = event
        operations: list[op.Operation] = []
        try:
            value: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            if raw not in self._sentinels:
                slots.report(*event_fault(raw))
        else:
            self._normaliser.event(value, raw, operations)
        for one in operations:
            before = self._states()
            slots.apply(one)
            self._describe(event, one, before)
            self._transitions(event, before)

    def _states(self) -> dict[tuple[int, int], str]:
        return {
            (number, index): slot.state
            for number, choice in self._slots.choices.items()
            for index, slot in choice.slots.items()
        }

    def _transitions(self, event: int, before: Mapping[tuple[int, int], str]) -> None:
        for place, state in self._states().items():
            old = before.get(place, "unseen")
            if old != state:
                self._history(place).say(event, f"{old} -> {state}")

    def _history(self, place: tuple[int, int]) -> _History:
        return self._histories.setdefault(place, _History())

    def _describe(self, event: int, one: op.Operation, before: Mapping[tuple[int, int], str]) -> None:
        if isinstance(one, op.Start):
            self._start(event, one, again=(one.choice, one.block) in before)
        elif isinstance(one, op.Identify):
            parts = [f"id {one.ident}" if one.ident else "", f"name {one.name}" if one.name else ""]
            self._history((one.choice, one.block)).say(event, f"again: {', '.join(filter(None, parts)) or 'nothing'}")
        elif isinstance(one, op.Delta):
            history = self._history((one.choice, one.block))
            if before.get((one.choice, one.block)) != "accumulating":
                history.say(event, f"a piece of {len(one.text)} characters comes here and is not taken")
            elif one.field in ("text", "arguments"):
                history.piece(event, one.text)
            else:
                history.say(event, f"{one.field}, {len(one.text)} characters")
        elif isinstance(one, op.TurnStop):
            self._turn.say(event, f"stop reason {_word(one.value)}, read as {one.stop}")
        elif isinstance(one, op.TurnEnd):
            self._turn.say(event, "the provider's end mark")
        elif isinstance(one, op.Failure):
            self._turn.say(event, f"the provider reports an error, {one.error_class}")
        elif isinstance(one, op.Handle):
            self._turn.say(event, f"response id {one.value}")

    def _start(self, event: int, start: op.Start, *, again: bool) -> None:
        history = self._history((start.choice, start.block))
        if again:
            history.say(event, "begins once more: the slot is in use")
        elif start.kind in ("tool_call", "server_tool_call"):
            history.say(event, f"id {start.ident or 'missing'}, name {start.name or 'missing'}")


def _title(slot: Slot) -> str:
    if slot.kind not in ("tool_call", "server_tool_call"):
        return f"slot {slot.label}  {slot.kind}"
    return f"slot {slot.label}  {slot.kind}  {''.join(slot.names) or '(no name)'}  id={slot.ident or '(none)'}"


def _end(slot: Slot, passed: bool, findings: Sequence[Mapping[str, object]]) -> str:
    if passed:
        return f"{slot.state} -> validated"
    own = [str(f["code"]) for f in findings if f.get("slot") == slot.label and f["severity"] == "error"]
    return f"blocked by {', '.join(dict.fromkeys(own))}" if own else f"stays {slot.state}: the turn does not pass"


def _finding(finding: Mapping[str, object]) -> str:
    event = finding.get("eventIndex")
    where = "" if event is None else f"event {event}: "
    return f"{where}{finding['severity']} {finding['code']}: {finding['message']}"


def _word(value: str) -> str:
    return value if len(value) <= 64 and value.replace("_", "").replace("-", "").isalnum() else "(no word)"
