"""One relay of one attempt, from raw provider events to an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import orjson

from turngate.domain.adapters import normalisers
from turngate.domain.stream.gate import Counts, Gate
from turngate.domain.stream.operations import NormaliserSpec, Operation
from turngate.domain.stream.outcome import Outcome, StreamEnd
from turngate.domain.stream.preview import Preview
from turngate.domain.stream.sequencer import Sequencer
from turngate.domain.stream.slots import Limits, Slots
from turngate.domain.stream.strict_json import event_fault
from turngate.domain.stream.toolset import CompiledToolset

_DEFAULT_LIMITS = Limits()


class Assembler:
    """Feeds one relay's events through sequencer, normaliser and slots; `end` asks the gate.

    profile, normaliser_version: name the normaliser (None: the newest). Raises UnknownNormaliser.
    tools: the manifest's toolset, compiled. tool_choice: "forced" where the request forced one tool.
    alternatives: what several choices of text alone mean: "block" (the fleet) or "note" (report the first).
    """

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
    def handle(self) -> str | None:
        """The provider's response id, once seen."""
        return self._slots.handle

    def feed(self, first_seq: int, raw_events: Sequence[str]) -> tuple[Preview, ...]:
        """Take consecutive events, the first numbered `first_seq`, in any order of calls and any number of
        times.

        raw_events: the provider's data payloads, exactly as received. Returns what became visible.
        """
        slots = self._slots
        operations: list[Operation] = []
        for raw in self._sequencer.accept(first_seq, raw_events):
            slots.event_index = self._read
            self._read += 1
            self._interpret(raw, operations)
            for operation in operations:
                slots.apply(operation)
            operations.clear()
        return slots.take_previews()

    def end(self, end: StreamEnd) -> Outcome:
        """The relay is over: judge it. To be called once; nothing may be fed afterwards."""
        whole = self._sequencer.is_whole(end.count)
        leftovers: list[Operation] = []
        for seq, raw in self._sequencer.leftovers():
            self._slots.event_index = seq
            self._interpret(raw, leftovers)
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

    def _interpret(self, raw: str, out: list[Operation]) -> None:
        try:
            value: object = orjson.loads(raw)
        except orjson.JSONDecodeError:
            if raw not in self._spec.facts.sentinels:
                self._slots.report(*event_fault(raw))
            return
        self._normaliser.event(value, raw, out)
