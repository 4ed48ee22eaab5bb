"""One relay of one attempt, from raw provider events to an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turngate.domain.adapters import normalisers
from turngate.domain.stream.gate import Counts, Gate
from turngate.domain.stream.operations import Continuation, Delta, NormaliserSpec, Operation, Usage
from turngate.domain.stream.outcome import Outcome, StreamEnd
from turngate.domain.stream.preview import Preview
from turngate.domain.stream.runs import UNREADABLE, Run, parsed
from turngate.domain.stream.sequencer import Sequencer
from turngate.domain.stream.slots import Limits, Slots
from turngate.domain.stream.strict_json import but_for_numbers, event_fault, repeated_key
from turngate.domain.stream.toolset import CompiledToolset

_DEFAULT_LIMITS = Limits()


class Assembler:
    """Feeds one relay's events through sequencer, normaliser and slots; `end` asks the gate.

    profile, normaliser_version: name the normaliser (None: the newest). Raises UnknownNormaliser.
    tools: the manifest's toolset, compiled. tool_choice: "forced" where the request forced one tool.
    alternatives: what several choices of text alone mean: "block" (the fleet) or "note" (report the first).
    """

    __slots__ = (
        "_alternatives", "_continuation", "_forced", "_limits", "_normaliser", "_read", "_run", "_sequencer", "_slots",
        "_spec", "_tools",
    )  # fmt: skip

    def __init__(
        self,
        *,
        profile: str,
        tools: CompiledToolset,
        normaliser_version: int | None = None,
        tool_choice: str | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        alternatives: Literal["block", "note"] = "block",
    ) -> None:
        self._spec: NormaliserSpec = normalisers.find_normaliser(profile, normaliser_version)
        self._normaliser = self._spec.build()
        self._continuation = getattr(self._normaliser, "continuation", None)
        self._run: Run | None = None
        self._tools = tools
        self._forced = tool_choice == "forced"
        self._limits = limits
        self._alternatives: Literal["block", "note"] = alternatives
        self._sequencer = Sequencer(limits.window_events, limits.window_characters)
        self._slots = Slots(limits, blocks_close_with_turn=self._spec.facts.blocks_close_with_turn)
        self._read = 0

    @property
    def normaliser(self) -> str:
        """`profile@version` of the normaliser in use."""
        return self._spec.name

    @property
    def closings(self) -> int:
        """How often a terminal, a usage or an error has been read."""
        return self._slots.closings

    @property
    def handle(self) -> str | None:
        """The provider's response id, once seen."""
        return self._slots.handle

    def feed(self, first_seq: int, raw_events: Sequence[str]) -> tuple[Preview, ...]:
        """Take consecutive events, the first numbered `first_seq`, in any order of calls and any number of
        times.

        raw_events: the provider's data payloads, exactly as received. Returns what became visible.
        """
        slots, run = self._slots, self._run
        events = self._sequencer.accept(first_seq, raw_events)
        at = 0
        while at < len(events):
            if run is None:
                value = parsed(events[at])
            else:
                at, value = run.take(events, at, self._read + at, slots)
                if at == len(events):
                    break
            slots.event_index = self._read + at
            run = self._step(value, events[at], run)
            at += 1
        self._read += at
        self._run = run
        if self._read > self._limits.events:
            slots.event_index = self._limits.events
            slots.report("too_large", f"more than {self._limits.events} events")
        return slots.take_previews()

    def _step(self, value: object, raw: str, run: Run | None) -> Run | None:
        """Apply one event in full; returns the run that the events after it may go on with."""
        operations: list[Operation] = []
        self._interpret(value, raw, operations)
        if not operations:
            if run is not None:
                run.forget()
            return run
        for operation in operations:
            self._slots.apply(operation)
        last = operations[-1]
        if self._continuation is None or not isinstance(last, Delta):
            return None
        slot = self._slots.open_for(last)
        continuation: Continuation | None = None if slot is None else self._continuation(value, last)
        return None if slot is None or continuation is None else Run(continuation, last, slot)

    def end(self, end: StreamEnd) -> Outcome:
        """The relay is over: judge it. To be called once; nothing may be fed afterwards."""
        whole = self._sequencer.is_whole(end.count)
        leftovers: list[Operation] = []
        for seq, raw in self._sequencer.leftovers():
            self._slots.event_index = seq
            self._interpret(parsed(raw), raw, leftovers)
            for operation in leftovers:
                self._slots.apply_outcome(operation)
            leftovers.clear()
        return self._gate().judge(end, Counts(self._read, self._sequencer.duplicates, not whole))

    def pending(self) -> Outcome:
        """The same view while the stream is still open: verdict `waiting`, nothing decided."""
        return self._gate().judge(None, Counts(self._read, self._sequencer.duplicates, missing=False))

    def _gate(self) -> Gate:
        return Gate(
            self._slots,
            self._spec.facts,
            self._tools,
            self._limits,
            forced=self._forced,
            alternatives=self._alternatives,
        )

    def _interpret(self, value: object, raw: str, out: list[Operation]) -> None:
        if value is not UNREADABLE:
            self._check_keys(value, raw)
            self._normaliser.event(value, raw, out)
        elif raw not in self._spec.facts.sentinels:
            self._in_spite_of_numbers(raw, out)

    def _check_keys(self, value: object, raw: str) -> None:
        """Of a repeated key readers take the first or the last: an event that names one twice has two meanings."""
        found = repeated_key(value, raw)
        if found == "deep":
            self._slots.report("too_large", "event: the JSON is nested too deeply")
        elif found is not None:
            tolerated = found == "same" and self._spec.facts.same_key_again == "tolerated"
            text = "an object of the event names a key twice"
            self._slots.report("duplicate_key", text, severity="tolerated" if tolerated else "error")

    def _in_spite_of_numbers(self, raw: str, out: list[Operation]) -> None:
        """Nothing passes after an event that is no strict JSON. Where only numbers make it so, the rest of it still
        says what was meant and whether the turn ended."""
        code, message = event_fault(raw)
        self._slots.report(code, message)
        value = but_for_numbers(raw) if code in ("non_finite_number", "too_large") else None
        if value is not None:
            found: list[Operation] = []
            self._normaliser.event(value, raw, found)
            out.extend(operation for operation in found if not isinstance(operation, Usage))
