"""The reading of one stream of canonical events: ordered and deduplicated per block, then taken at their word."""

from __future__ import annotations

import json
import zlib
from array import array
from typing import cast

from turngate.domain.adapters.canonical import normaliser_tables as tables
from turngate.domain.stream import operations as op
from turngate.domain.stream.findings import GateCode
from turngate.domain.stream.rawjson import slice_at

Json = dict[str, object]


class _Block:
    """What has come of one block. sums: CRC32 of every event applied, so that a repeat is told from another event."""

    __slots__ = ("kind", "pending", "sums")

    def __init__(self, kind: op.BlockKind) -> None:
        self.kind: op.BlockKind = kind
        self.sums = array("I")
        self.pending: dict[int, tuple[Json, str]] = {}


class CanonicalNormaliser:
    """The profile `canonical`."""

    def __init__(self) -> None:
        self._identity: tuple[str, int] | None = None
        self._blocks: dict[tuple[int, int], _Block] = {}
        self._stops: dict[int, str] = {}
        self._waiting = 0

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        event = cast("Json", value) if isinstance(value, dict) else {}
        word = self._operation(event, out)
        if word is None or not self._same_attempt(event, out):
            return
        choice = _number(event, "choice", out) if "choice" in event else 0
        if choice is None:
            return
        if word in tables.BLOCK_OPERATIONS:
            self._place(choice, event, raw, out)
        elif word == "turnStop":
            self._turn_stop(choice, cast("Json", event[word]), raw, out)
        elif word == "usage":
            out.append(op.Usage(cast("Json", event[word]), raw, ("usage",)))
        else:
            out.append(_failure(cast("Json", event[word])))

    # -- the event -------------------------------------------------------------------------------------------

    def _operation(self, event: Json, out: list[op.Operation]) -> str | None:
        """The one operation of the event; everything else in it must be known too."""
        words = event.keys() & tables.OPERATIONS
        word = next(iter(words)) if len(words) == 1 else None
        members = event[word] if word is not None else None
        if word is None or not isinstance(members, dict):
            # It may have been anything, a call too: it blocks, whatever else the turn holds.
            _note(out, "unknown_event", "an event without exactly one known operation")
            _note(out, "missing_slot", "an event without exactly one known operation")
            return None
        allowed = tables.IDENTITY | {word} | (tables.PLACE if word in tables.BLOCK_OPERATIONS else frozenset())
        known = tables.MEMBERS.get(word)
        if not event.keys() <= allowed or (known is not None and not cast("Json", members).keys() <= known):
            _note(out, "unknown_event", "a field that this normaliser does not know")
        return word

    def _same_attempt(self, event: Json, out: list[op.Operation]) -> bool:
        handle, generation = event.get("handle"), _number(event, "generation", out)
        if generation is None:
            return False
        if not isinstance(handle, str) or not handle:
            _note(out, "missing_identity", "an event without a handle")
            return False
        if len(handle) > tables.HANDLE_CHARACTERS_MAX:
            _note(out, "too_large", f"a handle has more than {tables.HANDLE_CHARACTERS_MAX} characters")
            return False
        if self._identity is None:
            self._identity = (handle, generation)
            out.append(op.Handle(handle))
        elif self._identity != (handle, generation):
            _note(out, "identity_collision", "an event of another handle or generation")
            return False
        return True

    # -- order -----------------------------------------------------------------------------------------------

    def _place(self, choice: int, event: Json, raw: str, out: list[op.Operation]) -> None:
        index, seq = _number(event, "blockIndex", out), _number(event, "deltaSeq", out)
        word = event.get("kind")
        kind = tables.KINDS.get(word) if isinstance(word, str) else None
        if kind is None:
            _note(out, "unknown_event", "a kind of block that this normaliser does not know")
            _note(out, "missing_slot", "a kind of block that this normaliser does not know")
        if index is None or seq is None or kind is None:
            return
        block = self._blocks.get((choice, index))
        if block is None:
            block = self._blocks[choice, index] = _Block(kind)
        if block.kind != kind:
            _note(out, "identity_collision", "a block of two kinds", choice, index)
            return
        due = len(block.sums)
        if seq < due or seq in block.pending:
            again = block.sums[seq] if seq < due else _sum(block.pending[seq][1])
            if again != _sum(raw):
                _note(out, "identity_collision", "two events have the same number", choice, index)
        elif choice in self._stops:
            _note(out, "delta_after_terminal", "an event of a block after the turn stop", choice, index)
        elif seq > due:
            self._wait(block, choice, index, seq, (event, raw), out)
        else:
            self._apply(choice, index, block, event, raw, out)
            while (due := len(block.sums)) in block.pending:
                event, raw = block.pending.pop(due)
                self._waiting -= len(raw)
                self._apply(choice, index, block, event, raw, out)

    def _wait(
        self, block: _Block, choice: int, index: int, seq: int, held: tuple[Json, str], out: list[op.Operation]
    ) -> None:
        size = len(held[1])
        if seq - len(block.sums) >= tables.WINDOW_EVENTS or self._waiting + size > tables.WINDOW_CHARACTERS:
            _note(out, "missing_events", "an event comes too far ahead of its block", choice, index)
            return
        block.pending[seq] = held
        self._waiting += size

    # -- operations ------------------------------------------------------------------------------------------

    def _apply(self, choice: int, index: int, block: _Block, event: Json, raw: str, out: list[op.Operation]) -> None:
        block.sums.append(_sum(raw))
        if "delta" in event:
            _delta(choice, index, block.kind, cast("Json", event["delta"]), raw, out)
        elif "start" in event:
            _start(choice, index, block.kind, cast("Json", event["start"]), raw, out)
        else:
            out.append(op.Stop(choice, index))

    def _turn_stop(self, choice: int, stop: Json, raw: str, out: list[op.Operation]) -> None:
        if choice in self._stops:
            if self._stops[choice] != raw:
                _note(out, "duplicate_terminal", "two turn stops differ")
            return
        self._stops[choice] = raw
        blocks = _number(stop, "blocks", out)
        here = {index: block for (of, index), block in self._blocks.items() if of == choice}
        if blocks is None or here.keys() != set(range(blocks)) or any(block.pending for block in here.values()):
            _note(out, "missing_events", "events of the turn are missing at its stop")
        word, reason, void = stop.get("class"), stop.get("reason"), stop.get("void")
        found = tables.STOPS.get(word, "unknown") if isinstance(word, str) else "unknown"
        if not isinstance(reason, str | None) or (
            void is not None and not (found == "filtered" and isinstance(void, str))
        ):
            _note(out, "unknown_event", "a turn stop whose reason or void text is of no known form")
        name = reason if isinstance(reason, str) else found
        out.append(op.TurnStop(choice, name, found, void if found == "filtered" and isinstance(void, str) else None))
        if found == "error":
            out.append(op.Failure(name, "retryable"))


def _start(choice: int, index: int, kind: op.BlockKind, start: Json, raw: str, out: list[op.Operation]) -> None:
    ident, name = (_name(start.get(field)) for field in ("id", "name"))
    if kind not in tables.CALLS and (ident or name):
        _note(out, "unknown_event", "an id or a name on a block that is no call", choice, index)
    data = slice_at(raw, ("start", "data")) if "data" in start else None
    if data is not None and (kind not in tables.OPAQUE or not isinstance(start["data"], dict)):
        _note(out, "unknown_event", "data on a block that holds none", choice, index)
        data = None
    if data is None and kind == "server_tool_call":
        data = json.dumps({"id": ident, "name": name, "input": {}}, separators=(",", ":"))
    at = ("input",) if kind == "server_tool_call" else ()
    out.append(op.Start(choice, index, kind, index, ident, name, data, at))


def _delta(choice: int, index: int, kind: op.BlockKind, delta: Json, raw: str, out: list[op.Operation]) -> None:
    if len(delta) != 1:
        _note(out, "unknown_event", "a delta has exactly one member", choice, index)
    for member, value in delta.items():
        row = tables.DELTAS.get(member)
        if row is None:
            continue  # named with the event's fields
        field, kinds = row
        text = slice_at(raw, ("delta", member)) if field in ("citation", "part") else value
        if kind not in kinds:
            _note(out, "missing_slot", "a delta of another kind than its block", choice, index)
        elif isinstance(text, str):
            out.append(op.Delta(choice, index, field, text))
        else:
            _note(out, "unknown_event", "a delta without its text", choice, index)


def _failure(error: Json) -> op.Failure:
    kind, word = error.get("type"), error.get("class")
    known = tables.ERROR_CLASSES.get(word) if isinstance(word, str) else None
    return op.Failure(kind if isinstance(kind, str) else "error", known or "retryable")


def _number(holder: Json, name: str, out: list[op.Operation]) -> int | None:
    value = holder.get(name)
    least, greatest = tables.BOUNDS[name]
    if type(value) is not int or value < least:
        _note(out, "missing_slot", f"an event without a usable {name}")
        return None
    if value > greatest:
        _note(out, "too_large", f"{name} exceeds {greatest}")
        return None
    return value


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _sum(raw: str) -> int:
    return zlib.crc32(raw.encode("utf-8", "surrogatepass"))


def _note(
    out: list[op.Operation], code: GateCode, message: str, choice: int | None = None, slot: int | None = None
) -> None:
    out.append(op.Note(code, "error", message, choice, slot))
