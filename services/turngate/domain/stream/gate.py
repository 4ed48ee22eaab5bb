"""The gate: what the slots hold at the end of a relay is a turn, or it is not. Nothing passes in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import orjson

from turngate.domain.stream import rawjson
from turngate.domain.stream.findings import Finding, GateCode
from turngate.domain.stream.operations import BlockKind, ProfileFacts, StopClass, TurnStop
from turngate.domain.stream.outcome import (
    BLOCKING_ORDER,
    BLOCKING_ROWS,
    OUTCOMES,
    READING_FAULTS,
    Block,
    Outcome,
    RowName,
    StreamEnd,
    http_row,
)
from turngate.domain.stream.slots import Choice, Limits, Slot, Slots
from turngate.domain.stream.strict_json import RejectedJson, parse_object
from turngate.domain.stream.toolset import LONG_INTEGERS_MAX, CompiledToolset

_PROSE: frozenset[BlockKind] = frozenset({"text", "thinking", "reasoning", "refusal"})


@dataclass(frozen=True, slots=True)
class Counts:
    """What the sequencer knows: events consumed in order, copies dropped, and whether some are missing."""

    events: int
    duplicates: int
    missing: bool


class Gate:
    """Judges one relay, once."""

    def __init__(
        self,
        slots: Slots,
        facts: ProfileFacts,
        tools: CompiledToolset,
        limits: Limits,
        *,
        forced: bool,
        alternatives: Literal["block", "note"],
    ) -> None:
        self._slots = slots
        self._facts = facts
        self._tools = tools
        self._limits = limits
        self._forced = forced
        self._alternatives = alternatives
        self._findings: list[Finding] = list(slots.findings)
        filled = {n: c for n, c in slots.choices.items() if c.slots}
        self._filled = filled
        self._choice = filled[min(filled)] if filled else slots.choices.get(0, Choice())
        self._blocks = _ordered(self._choice)
        self._calls = [s for c in filled.values() for s in _ordered(c) if s.kind == "tool_call"]
        self._parsed: dict[int, Mapping[str, object]] = {}
        self._names: dict[int, str] = {}

    # -- decisions -------------------------------------------------------------------------------------------

    def judge(self, end: StreamEnd | None, counts: Counts) -> Outcome:
        """The outcome; `end` None means that the stream is still open."""
        if counts.missing:
            self._find("missing_events", "events of the relay are missing")
        fault = READING_FAULTS.get(end.error_class or "") if end is not None and end.cause == "reset" else None
        if fault is not None:
            self._find(fault, "what the provider sent could not be read to its end")
        terminal = self._terminal_seen(end)
        stop = self._stop_class(terminal)
        if terminal and self._slots.failure is None:
            stop = self._check_turn(stop)
        elif (
            end is not None
            and self._slots.failure is None
            and fault != "missing_terminal"
            and end.cause in ("eof", "reset", "timeout", "ownerGone", "handover")
        ):
            self._find("missing_terminal", "the stream ended without the provider's terminal")
        if not self._calls:
            self._findings = [_noted(f) if f.code == "unknown_event" else f for f in self._findings]
        return self._outcome(self._row(end, terminal), stop, terminal, end, counts)

    def _row(self, end: StreamEnd | None, terminal: bool) -> RowName:
        if end is None:
            return "waiting"
        if end.cause == "cancelled":
            return "cancelled"
        if end.cause == "notSent":
            return "refused" if end.error_class in ("auth", "invalid_request") else "rejected"
        if end.cause == "http" and not terminal:
            row = http_row(end)
            return row or ("closed" if end.evidence_closed else "unknown")
        failure = self._slots.failure
        if failure is not None:
            return "provider_error" if failure.error_class == "retryable" else "provider_refused"
        if not terminal and not end.evidence_closed:
            return "unknown"
        without = frozenset[GateCode]() if terminal else frozenset[GateCode]({"missing_events", "missing_terminal"})
        rows = {BLOCKING_ROWS[f.code] for f in self._findings if f.severity == "error" and f.code not in without}
        if terminal and self._cut_with_calls():
            rows.add("never")
        for name in BLOCKING_ORDER:
            if name in rows:
                return name
        if terminal:
            return "commit"
        return "closed_timeout" if end.cause == "timeout" else "closed"

    def _terminal_seen(self, end: StreamEnd | None) -> bool:
        """Every choice that holds anything has stopped, and the end mark came where the profile has one."""
        stops = [c.stop for c in self._slots.choices.values()]
        if not stops or None in stops:
            return False
        lost_end = self._facts.stop_may_go_on and end is not None and end.cause != "eof"
        if lost_end and any(stop is not None and stop.stop == "complete" for stop in stops):
            return False
        return self._slots.ended or not self._facts.end_mark

    def _stop_class(self, terminal: bool) -> StopClass:
        if self._slots.failure is not None:
            return "error"
        return self._choice.stop.stop if terminal and self._choice.stop is not None else "unknown"

    def _cut_with_calls(self) -> bool:
        stop = self._choice.stop
        return bool(self._calls) and stop is not None and stop.stop in ("truncated", "filtered")

    # -- the turn --------------------------------------------------------------------------------------------

    def _check_turn(self, stop: StopClass) -> StopClass:
        """Everything that can be said of a turn with its terminal; returns the stop class the turn really
        has."""
        if len(self._filled) > 1:
            self._several_choices()
        self._check_blocks()
        if stop == "error":
            self._find("provider_error", "the provider stopped with an error")
            return stop
        if stop == "unknown":
            self._find("wrong_terminal_reason", "the stop reason is not one this profile knows")
            return stop
        if not self._calls:
            if stop == "tool_calls":
                self._find("wrong_terminal_reason", "stopped for tool calls without any call")
                return "unknown"
            return stop
        said = stop
        if said == "complete":
            stop = self._complete_with_calls()
        if stop != "tool_calls":
            self._find("wrong_terminal_reason", f"tool calls in a turn whose stop label is of class {said}")
            return stop
        if any(s.kind == "refusal" for s in self._choice.slots.values()):
            self._find("wrong_terminal_reason", "tool calls beside a refusal")
        self._check_calls()
        return stop

    def _check_blocks(self) -> None:
        """Every block ended, and what will be given back to the provider can be."""
        for choice in self._filled.values():
            for slot in _ordered(choice):
                if slot.state == "accumulating":
                    self._find("missing_terminal", "the block was never ended", slot)
                elif slot.kind == "server_tool_call":
                    self._check_server_input(choice, slot)

    def _check_server_input(self, choice: Choice, slot: Slot) -> None:
        """A provider's own call is not run here, but its block is given back: a cut input would break that body."""
        content = slot.content()
        if not content or (choice.stop is not None and choice.stop.void is not None):
            return
        try:
            orjson.loads(content)
        except orjson.JSONDecodeError:
            self._find("malformed_json", "the input of a server tool is not JSON", slot)

    def _several_choices(self) -> None:
        if self._calls:
            self._find("multiple_choices", "more than one choice holds content, and a call is among it")
        elif self._alternatives == "block":
            self._find("multiple_choices", "more than one choice holds content")
        else:
            self._findings.append(Finding("multiple_choices", "several choices; the first is reported", "note"))

    def _complete_with_calls(self) -> StopClass:
        """Where the label is not to be read as one for calls, label and content contradict: nobody knows why it
        stopped."""
        reading = self._facts.complete_with_calls
        if reading == "tolerated":
            self._findings.append(
                Finding(
                    "wrong_terminal_reason",
                    "a complete label beside complete calls is read as tool_calls",
                    "tolerated",
                )
            )
            return "tool_calls"
        return "tool_calls" if reading == "forced" and self._forced else "unknown"

    def _check_calls(self) -> None:
        ids: set[str] = set()
        for slot in self._calls:
            if slot.ident is None:
                self._find("missing_identity", "the call has no id", slot)
            elif slot.ident in ids:
                self._find("duplicate_call_id", "two calls of the turn have the same id", slot)
            else:
                ids.add(slot.ident)
            name = self._tool_name(slot)
            if name is not None:
                self._names[id(slot)] = name
                self._check_arguments(slot, name)

    def _tool_name(self, slot: Slot) -> str | None:
        """The one declared reading of the name fragments: the same name repeated, its pieces, or growing
        snapshots."""
        names = slot.names
        if not names:
            self._find("missing_identity", "the call has no tool name", slot)
            return None
        if len(names) == 1:
            return names[0]
        readings = {"".join(names)}
        if all(later.startswith(earlier) for earlier, later in pairwise(names)):
            readings.add(names[-1])  # also covers a name that is only repeated
        declared = sorted(readings & self._tools.tools.keys())
        if len(declared) == 1:
            self._findings.append(
                Finding(
                    "identity_collision",
                    "repeated name fragments have one declared reading",
                    "tolerated",
                    slot.label,
                )
            )
            return declared[0]
        if declared:
            self._find("identity_collision", "the name fragments read as more than one declared tool", slot)
        else:
            self._find("unknown_tool", "no reading of the name fragments is a declared tool", slot)
        return None

    def _check_arguments(self, slot: Slot, name: str) -> None:
        tool = self._tools.tools.get(name)
        if tool is None:
            self._find("unknown_tool", "the tool is not declared", slot)
            return
        if tool.unsupported is not None:
            path = tool.unsupported.path
            self._find("unsupported_schema", f"tool schema: {tool.unsupported.reason}", slot, path)
            return
        raw = slot.content()
        if raw == "" and self._facts.empty_arguments != "malformed" and not slot.must_be_whole:
            raw = "{}"
            if self._facts.empty_arguments == "tolerated":
                text = "empty argument text is read as an empty object"
                self._findings.append(Finding("malformed_json", text, "tolerated", slot.label))
        try:
            arguments = parse_object(raw, bytes_max=self._limits.arguments_bytes, depth_max=self._limits.depth)
        except RejectedJson as rejected:
            if slot.must_be_whole:
                self._find("identity_collision", "two calls share a slot and one is not complete in itself", slot)
            else:
                self._find(rejected.code, str(rejected), slot)
            return
        if tool.compares_too_much(arguments):
            self._find("too_large", f"more than {LONG_INTEGERS_MAX} long integers beside uniqueItems", slot)
            return
        broken = tool.first_error(arguments)
        if broken is not None:
            self._find("schema_invalid", "the arguments do not match the tool's schema", slot, broken)
            return
        self._parsed[id(slot)] = arguments

    def _find(self, code: GateCode, message: str, slot: Slot | None = None, path: str | None = None) -> None:
        label = None if slot is None else slot.label
        event = None if slot is None else slot.event_index
        self._findings.append(Finding(code, message, "error", label, event, path))

    # -- the result ------------------------------------------------------------------------------------------

    def _outcome(
        self, row_name: RowName, stop: StopClass, terminal: bool, end: StreamEnd | None, counts: Counts
    ) -> Outcome:
        row = OUTCOMES[row_name]
        commits = row.verdict == "commit"
        label = self._choice.stop
        blocks = self._committed_blocks(label) if commits else ()
        return Outcome(
            verdict=row.verdict,
            stop=stop,
            stop_value=None if label is None else label.value,
            blocks=blocks,
            calls=tuple(b for b in blocks if b.kind == "tool_call"),
            findings=tuple(self._findings),
            text=self._assembled("text"),
            reasoning=self._assembled("thinking", "reasoning"),
            usage=self._slots.usage,
            usage_raw=self._usage_raw(),
            handle=self._slots.handle,
            event_count=counts.events,
            delta_count=self._slots.delta_count,
            duplicate_count=counts.duplicates,
            terminal_seen=terminal,
            previews=row.previews,
            request_end=row.request_end,
            retry=row.retry,
            continues=commits and stop == "paused",
            retry_after_ms=None if end is None else end.retry_after_ms,
        )

    def _committed_blocks(self, label: TurnStop | None) -> tuple[Block, ...]:
        slots = self._blocks
        if label is not None and label.void is not None:
            following = slots[-1].index + 1 if slots else 0
            return (Block(following, "refusal", f"0/{following}", text=label.void),)
        return tuple(self._block(slot) for slot in slots)

    def _block(self, slot: Slot) -> Block:
        content = slot.content()
        is_call = slot.kind in ("tool_call", "server_tool_call")
        if slot.kind == "tool_call":
            slot.state = "validated"
        return Block(
            index=slot.index,
            kind=slot.kind,
            slot=slot.label,
            text=content if slot.kind in _PROSE else "",
            data=_with_input(slot, content),
            signature=slot.signature,
            citations=tuple(slot.citations),
            parts=tuple(slot.parts),
            call_id=slot.ident if is_call else None,
            name=self._names.get(id(slot), slot.names[0] if slot.names else None) if is_call else None,
            arguments_raw=content if is_call else None,
            arguments=self._parsed.get(id(slot)),
            schema_digest=self._schema_digest(slot),
        )

    def _schema_digest(self, slot: Slot) -> str | None:
        tool = self._tools.tools.get(self._names.get(id(slot), ""))
        return None if tool is None else tool.digest

    def _assembled(self, *kinds: BlockKind) -> str:
        return "".join(s.content() for s in self._blocks if s.kind in kinds)

    def _usage_raw(self) -> str | None:
        if self._slots.usage is None:
            return None
        at = self._slots.usage_at
        exact = None if at is None else rawjson.slice_at(*at)
        return exact if exact is not None else orjson.dumps(self._slots.usage).decode()


def _ordered(choice: Choice) -> list[Slot]:
    return [choice.slots[index] for index in sorted(choice.slots)]


def _with_input(slot: Slot, content: str) -> str | None:
    if slot.data is None or not slot.arguments_at or not content:
        return slot.data
    return rawjson.replaced(slot.data, slot.arguments_at, content)


def _noted(finding: Finding) -> Finding:
    return replace(finding, severity="note") if finding.severity == "error" else finding
