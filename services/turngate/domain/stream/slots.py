"""The slots of one relay: every block under construction, in its state, with its private buffers."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from turngate.domain.stream import operations as op
from turngate.domain.stream import rawjson
from turngate.domain.stream.findings import Finding, GateCode, Severity
from turngate.domain.stream.preview import SHOWN, Preview
from turngate.domain.stream.states import (
    SLOT_MISSES,
    SLOT_TRANSITIONS,
    TURN_MISSES,
    TURN_TRANSITIONS,
    SlotEvent,
    SlotState,
    TurnEvent,
    TurnState,
)
from turngate.domain.stream.strict_json import is_too_deep


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn; what exceeds them is `too_large`.

    turn_bytes: text and argument bytes of the whole turn (UTF-8). arguments_bytes: of one call.
    events: of one relay. blocks: of all choices. depth: nesting of arguments, of the usage, and of what is kept
    verbatim.
    identity_characters: of a call's id or name, and of a response id that is kept.
    usage_characters: of the provider's usage object as JSON.
    window_events, window_characters: reordering window of the relay.
    findings: how many findings are kept.
    """

    turn_bytes: int = 720_000
    arguments_bytes: int = 512_000
    events: int = 1_000_000
    blocks: int = 1024
    depth: int = 64
    identity_characters: int = 256
    usage_characters: int = 65_536
    window_events: int = 4096
    window_characters: int = 8_000_000
    findings: int = 256


class Slot:
    """One block under construction."""

    __slots__ = (
        "arguments_at",
        "arguments_bytes",
        "choice",
        "citations",
        "data",
        "event_index",
        "ident",
        "index",
        "kind",
        "length",
        "must_be_whole",
        "names",
        "number",
        "parts",
        "pieces",
        "shown",
        "signature",
        "state",
    )

    def __init__(self, start: op.Start, event_index: int) -> None:
        self.choice = start.choice
        self.index = start.block
        self.kind: op.BlockKind = start.kind
        self.number = start.slot
        self.ident = start.ident
        self.names = [start.name] if start.name else []
        self.data = start.data
        self.arguments_at = start.arguments_at
        self.event_index = event_index
        self.state: SlotState = "accumulating"
        self.pieces: list[str] = []
        self.parts: list[str] = []
        self.citations: list[str] = []
        self.signature: str | None = None
        self.length = 0
        self.arguments_bytes = 0
        self.must_be_whole = False
        self.shown = False

    @property
    def label(self) -> str:
        return f"{self.choice}/{self.number}"

    def content(self) -> str:
        """Text, or argument text, as received."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Choice:
    """One alternative of the response."""

    __slots__ = ("slots", "state", "stop")

    def __init__(self, state: TurnState = "open") -> None:
        self.slots: dict[int, Slot] = {}
        self.state: TurnState = state
        self.stop: op.TurnStop | None = None


class Slots:
    """Applies operations. `event_index` is set by the caller before each event."""

    __slots__ = (
        "_blocks", "_blocks_close_with_turn", "_bytes", "_codes", "_limits", "_pending", "_run", "_run_offset",
        "_run_texts", "_said", "blocked", "choices", "closings", "delta_count", "ended", "event_index", "failure",
        "findings", "handle", "usage", "usage_at",
    )  # fmt: skip

    def __init__(self, limits: Limits, *, blocks_close_with_turn: bool) -> None:
        self._limits = limits
        self._blocks_close_with_turn = blocks_close_with_turn
        self._bytes = 0
        self._blocks = 0
        self._said: set[tuple[str, str, str | None]] = set()
        self._codes: set[GateCode] = set()
        self._pending: list[Preview] = []
        self._run: Slot | None = None
        self._run_offset = 0
        self._run_texts: list[str] = []
        self.choices: dict[int, Choice] = {}
        self.findings: list[Finding] = []
        self.blocked = False
        self.ended = False
        self.failure: op.Failure | None = None
        self.handle: str | None = None
        self.usage: dict[str, object] | None = None
        self.usage_at: tuple[str, tuple[str | int, ...]] | None = None
        self.event_index = 0
        self.delta_count = 0
        self.closings = 0

    # -- findings --------------------------------------------------------------------------------------------

    def report(self, code: GateCode, message: str, *, severity: Severity = "error", slot: str | None = None) -> None:
        """Keep a finding once per (code, message, slot); an unknown event blocks only beside calls, so not
        here."""
        if severity == "error" and code != "unknown_event":
            self.blocked = True
        key = (code, message, slot)
        first_error = severity == "error" and code not in self._codes
        if key in self._said or (len(self.findings) >= self._limits.findings and not first_error):
            return  # the first error of each code is always kept: a flood of others must not hide it
        if severity == "error":
            self._codes.add(code)
        self._said.add(key)
        self.findings.append(Finding(code, message, severity, slot, self.event_index))

    # -- operations ------------------------------------------------------------------------------------------

    def apply(self, operation: op.Operation) -> None:
        """One operation. Content comes first: it is nearly all of a stream."""
        if isinstance(operation, op.Delta):
            self._delta(operation)
        elif isinstance(operation, op.Start):
            self._start(operation)
        elif isinstance(operation, op.Stop):
            self._stop(operation)
        elif isinstance(operation, op.Identify):
            self._identify(operation)
        elif isinstance(operation, op.Whole):
            slot = self._find(operation.choice, operation.block)
            if slot is not None:
                slot.must_be_whole = True
        elif isinstance(operation, op.Replace):
            slot = self._find(operation.choice, operation.block)
            if slot is not None and self._spend(operation.text):
                slot.pieces = [operation.text]
        else:
            self.apply_outcome(operation)

    def apply_outcome(self, operation: op.Operation) -> None:
        """Only what concerns the turn as a whole; all that is believed once events are known to be
        missing."""
        if isinstance(operation, op.CLOSING):
            self.closings += 1
        if isinstance(operation, op.TurnStop):
            self._turn_stop(operation)
        elif isinstance(operation, op.Reopen):
            self._reopen(operation.choice)
        elif isinstance(operation, op.TurnEnd):
            self._turn_end()
        elif isinstance(operation, op.Usage):
            self._set_usage(operation)
        elif isinstance(operation, op.Handle):
            self._set_handle(operation.value)
        elif isinstance(operation, op.Failure):
            self.failure = self.failure or operation
            self.report("provider_error", f"the provider reports {operation.error_class} error")
        elif isinstance(operation, op.Note):
            slot = None if operation.choice is None else f"{operation.choice}/{operation.slot}"
            self.report(operation.code, operation.message, severity=operation.severity, slot=slot)

    def _find(self, choice: int, block: int) -> Slot | None:
        found = self.choices.get(choice)
        return None if found is None else found.slots.get(block)

    def _turn_step(self, choice: Choice, event: TurnEvent, slot: str | None) -> bool:
        following = TURN_TRANSITIONS.get((choice.state, event))
        if following is None:
            self.report(TURN_MISSES[choice.state, event], f"{event} after the turn is {choice.state}", slot=slot)
            return False
        choice.state = following
        return True

    def _slot_step(self, slot: Slot, event: SlotEvent) -> bool:
        following = SLOT_TRANSITIONS.get((slot.state, event))
        if following is None:
            self.report(SLOT_MISSES[slot.state, event], f"{event} while the slot is {slot.state}", slot=slot.label)
            slot.state = "blocked"
            return False
        slot.state = following
        return following != "blocked"

    def _choice_of(self, number: int) -> Choice:
        """The choice, begun where it is new; after the end of the response none begins open."""
        choice = self.choices.get(number)
        if choice is None:
            choice = self.choices[number] = Choice("ended" if self.ended else "open")
        return choice

    def _comes_late(self, choice: Choice | None, event: TurnEvent, label: str) -> bool:
        """Whether something of a block that never began comes after the end: then that is the finding."""
        if choice is None:
            choice = Choice("ended" if self.ended else "open")
        return not self._turn_step(choice, event, label)

    def _start(self, start: op.Start) -> None:
        choice = self._choice_of(start.choice)
        if not self._turn_step(choice, "content", f"{start.choice}/{start.slot}"):
            return
        slot = choice.slots.get(start.block)
        if slot is not None:
            self._slot_step(slot, "start")
            return
        if self._blocks >= self._limits.blocks:
            self.report("too_large", f"more than {self._limits.blocks} blocks")
            return
        self._blocks += 1
        slot = choice.slots[start.block] = Slot(start, self.event_index)
        if start.data and not self._keeps(start.data):
            slot.data = None
        self._bound_identity(slot, start.ident, start.name)
        self._show_start(slot)

    def _identify(self, again: op.Identify) -> None:
        slot = self._find(again.choice, again.block)
        if slot is None:
            self.report("missing_slot", "identity for a slot that never began", slot=f"{again.choice}/{again.block}")
            return
        self._bound_identity(slot, again.ident, again.name)
        if again.ident:
            if slot.ident is None:
                slot.ident = again.ident
            elif slot.ident != again.ident:
                self.report("identity_collision", "another call id on an open slot", slot=slot.label)
                slot.state = "blocked"
        if again.name and self._spend(again.name):
            slot.names.append(again.name)
        self._show_start(slot)

    def _delta(self, delta: op.Delta) -> None:
        choice = self.choices.get(delta.choice)
        slot = None if choice is None else choice.slots.get(delta.block)
        self.delta_count += 1
        if choice is None or slot is None:
            label = f"{delta.choice}/{delta.block}"
            if not self._comes_late(choice, "content", label):
                self.report(SLOT_MISSES["unseen", "delta"], "delta for a slot that never began", slot=label)
            return
        if choice.state != "open" and not self._turn_step(choice, "content", slot.label):
            return
        if slot.state != "accumulating" and not self._slot_step(slot, "delta"):
            return
        text = delta.text
        if not text or not self._spend(text):
            return
        if delta.field == "text":
            slot.pieces.append(text)
            self._show_text(slot, text)
        elif delta.field == "arguments":
            self._add_arguments(slot, text)
        elif delta.field == "signature":
            slot.signature = text
        elif not self._too_deep(text):
            (slot.citations if delta.field == "citation" else slot.parts).append(text)

    def open_for(self, delta: op.Delta) -> Slot | None:
        """The slot that took this delta, where further ones of the same field would be taken too."""
        choice = self.choices.get(delta.choice)
        slot = None if choice is None else choice.slots.get(delta.block)
        if choice is None or slot is None or choice.state != "open" or slot.state != "accumulating":
            return None
        return slot if delta.field in ("text", "arguments") else None

    def extend(self, slot: Slot, delta: op.Delta, texts: list[str], text: str, first_event: int) -> None:
        """The deltas of consecutive events to one open slot at once. Same result as one `apply` for each.

        delta: where they go. texts: none is empty. text: they joined. first_event: index of the first of them.
        """
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        arguments = delta.field == "arguments"
        if self._bytes + size > self._limits.turn_bytes or (
            arguments and slot.arguments_bytes + size > self._limits.arguments_bytes
        ):  # which of them is one too many is told one by one
            for self.event_index, one in enumerate(texts, first_event):
                self._delta(delta._replace(text=one))
            return
        self._bytes += size
        self.delta_count += len(texts)
        slot.pieces.append(text)
        if arguments:
            slot.arguments_bytes += size
            self._show_bytes(slot)
        else:
            self._show_text(slot, text)

    def _add_arguments(self, slot: Slot, text: str) -> None:
        slot.arguments_bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if slot.arguments_bytes > self._limits.arguments_bytes:
            self.report("too_large", f"arguments exceed {self._limits.arguments_bytes} bytes", slot=slot.label)
            slot.pieces.clear()
            slot.state = "blocked"
            return
        slot.pieces.append(text)
        self._show_bytes(slot)

    def _stop(self, stop: op.Stop) -> None:
        choice = self.choices.get(stop.choice)
        slot = None if choice is None else choice.slots.get(stop.block)
        if choice is None or slot is None:
            label = f"{stop.choice}/{stop.block}"
            if not self._comes_late(choice, "close", label):
                self.report(SLOT_MISSES["unseen", "stop"], "end of a slot that never began", slot=label)
        elif self._turn_step(choice, "close", slot.label) and self._slot_step(slot, "stop"):
            self._show_stop(slot)

    def _turn_stop(self, stop: op.TurnStop) -> None:
        choice = self._choice_of(stop.choice)
        if not self._turn_step(choice, "stop", f"{stop.choice}"):
            return
        if stop.void and not self._spend(stop.void):
            stop = stop._replace(void="")
        choice.stop = stop
        if self._blocks_close_with_turn:
            for slot in choice.slots.values():
                if slot.state == "accumulating" and self._slot_step(slot, "stop"):
                    self._show_stop(slot)

    def _reopen(self, number: int) -> None:
        choice = self.choices.get(number)
        if choice is not None and self._turn_step(choice, "reopen", f"{number}"):
            choice.stop = None

    def _turn_end(self) -> None:
        if self.ended:
            self.report("duplicate_terminal", "the response ends twice")
            return
        self.ended = True
        for choice in self.choices.values():
            self._turn_step(choice, "end", None)

    def _set_usage(self, usage: op.Usage) -> None:
        text, value = usage.source, usage.value
        at: tuple[str, tuple[str | int, ...]] | None = (text, usage.path)
        if len(text) > self._limits.usage_characters or is_too_deep(text, self._limits.depth):
            text = rawjson.slice_at(text, usage.path) or ""  # else it is within the bounds, as all of its event is
        if self._too_deep(text):
            return
        if usage.merge and self.usage is not None:
            value, at = {**self.usage, **{k: v for k, v in value.items() if v is not None}}, None
            text = orjson.dumps(value).decode()
        if len(text) > self._limits.usage_characters:
            self.report("too_large", f"the usage exceeds {self._limits.usage_characters} characters")
            return
        self.usage, self.usage_at = value, at

    def _keeps(self, text: str) -> bool:
        return self._spend(text) and not self._too_deep(text)

    def _too_deep(self, text: str) -> bool:
        """Of JSON that is kept verbatim: what nests too deeply could not be written again."""
        if not is_too_deep(text, self._limits.depth):
            return False
        self.report("too_large", f"JSON is nested deeper than {self._limits.depth} levels")
        return True

    def _set_handle(self, handle: str) -> None:
        """A response id that no record could hold is left out: it is an attribute, nothing rests on it."""
        if len(handle) > self._limits.identity_characters:
            self.report("too_large", "the response id is too long to be kept", severity="note")
        else:
            self.handle = self.handle or handle

    def _bound_identity(self, slot: Slot, *words: str | None) -> None:
        """Of every call, also a provider's own: its id and name stand in records, and in previews before that."""
        most = self._limits.identity_characters
        if any(word is not None and len(word) > most for word in words):
            self.report("too_large", f"the id or name of a call exceeds {most} characters", slot=slot.label)

    def _spend(self, text: str) -> bool:
        """Count content against the turn's budget; beyond it nothing more is kept, so memory stays
        bounded."""
        self._bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._bytes > self._limits.turn_bytes:
            self.report("too_large", f"the turn exceeds {self._limits.turn_bytes} bytes")
            return False
        return True

    # -- previews --------------------------------------------------------------------------------------------

    def take_previews(self) -> tuple[Preview, ...]:
        """What became visible since the last call."""
        self._flush()
        out = tuple(self._pending)
        self._pending.clear()
        return out

    def _flush(self) -> None:
        slot = self._run
        if slot is None:
            return
        self._run = None
        if slot.kind == "tool_call":
            name = slot.names[0]
            self._pending.append(
                Preview(
                    "tool_call",
                    "delta",
                    slot.index,
                    call_id=slot.ident,
                    name=name,
                    byte_count=slot.arguments_bytes,
                )
            )
        else:
            text = "".join(self._run_texts)
            self._pending.append(Preview(slot.kind, "delta", slot.index, self._run_offset, text))
            self._run_texts.clear()

    def _visible(self, slot: Slot) -> bool:
        return slot.choice == 0 and not self.blocked and slot.kind in SHOWN

    def _show_start(self, slot: Slot) -> None:
        """A call is shown once it has an id and a name."""
        is_call = slot.kind == "tool_call"
        if slot.shown or not self._visible(slot) or (is_call and not (slot.ident and slot.names)):
            return
        self._flush()
        slot.shown = True
        name = slot.names[0] if is_call else None
        self._pending.append(
            Preview(slot.kind, "started", slot.index, call_id=slot.ident if is_call else None, name=name)
        )

    def _show_text(self, slot: Slot, text: str) -> None:
        if self._visible(slot) and slot.shown:
            if self._run is not slot:
                self._flush()
                self._run = slot
                self._run_offset = slot.length
            self._run_texts.append(text)
        slot.length += len(text)

    def _show_bytes(self, slot: Slot) -> None:
        if slot.kind == "tool_call" and slot.shown and self._visible(slot) and self._run is not slot:
            self._flush()
            self._run = slot

    def _show_stop(self, slot: Slot) -> None:
        if slot.shown and slot.kind != "tool_call" and self._visible(slot):
            self._flush()
            self._pending.append(Preview(slot.kind, "stopped", slot.index, slot.length))
