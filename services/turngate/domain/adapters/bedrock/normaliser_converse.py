"""The reading of one ConverseStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from turngate.domain.adapters.bedrock.normaliser_tables import (
    CLOSED_BY_TURN,
    DELTAS,
    ERROR,
    ERROR_CLASSES,
    PROMOTED,
    REASONING,
    STARTS,
    STOPS,
    TOOL_KINDS,
)
from turngate.domain.stream import operations as op
from turngate.domain.stream.rawjson import slice_at

Json = dict[str, object]


class ConverseNormaliser:
    """The profile `bedrock`."""

    def __init__(self) -> None:
        self._begun = False
        self._kinds: dict[int, op.BlockKind | None] = {}  # None: announced by an empty start, its first delta tells
        self._open: set[int] = set()
        self._calls = False
        self._signatures: dict[int, str] = {}
        self._handlers: dict[str, Callable[[Json, str, list[op.Operation]], None]] = {
            "contentBlockDelta": self._delta,
            "contentBlockStart": self._start,
            "contentBlockStop": self._block_stop,
            "messageStart": self._message_start,
            "messageStop": self._message_stop,
            "metadata": self._metadata,
            ERROR: self._error,
        }

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        """One member of the union. The payload's field `p` is padding and stays unread."""
        if not isinstance(value, dict) or len(cast("Json", value)) != 1:
            out.append(op.Note("unknown_event", "error", "an event is an object with one member"))
            return
        ((name, payload),) = cast("Json", value).items()
        handler = self._handlers.get(name)
        if handler is not None:
            handler(_map(payload), raw, out)
        elif name.endswith("Exception"):
            out.append(_failure(name))
        else:
            out.append(op.Note("unknown_event", "error", "an event type that this normaliser does not know"))
            _never_dropped(name, out)

    # -- the message -----------------------------------------------------------------------------------------

    def _message_start(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        if self._begun or self._kinds:
            out.append(op.Note("identity_collision", "error", "a second message begins"))
        self._begun = True
        if event.get("role") != "assistant":
            out.append(op.Note("unknown_event", "error", "a message of another role than assistant"))

    def _message_stop(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        """`additionalModelResponseFields` repeats what the model said in its own words and adds nothing here."""
        for index in sorted(self._open):
            if self._kinds[index] in CLOSED_BY_TURN:
                self._open.discard(index)
                out.append(op.Note("missing_terminal", "tolerated", "a block of prose ends with the turn", 0, index))
                out.append(op.Stop(0, index))
        reason = event.get("stopReason")
        word = reason if isinstance(reason, str) else ""
        stop = STOPS.get(word, "unknown")
        if self._calls and word in PROMOTED:
            stop = "tool_calls"
            text = "a complete label beside tool calls is read as tool_calls"
            out.append(op.Note("wrong_terminal_reason", "tolerated", text))
        out.append(op.TurnStop(0, word, stop))
        if stop == "error":
            out.append(op.Failure(word, "retryable"))

    def _metadata(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        """Usage; metrics, the guardrail's trace, service tier and performance settings carry no content."""
        usage = event.get("usage")
        if isinstance(usage, dict):
            out.append(op.Usage(cast("Json", usage), raw, ("metadata", "usage")))

    def _error(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        code = event.get("code")
        out.append(_failure(code if isinstance(code, str) else ERROR))

    # -- blocks ----------------------------------------------------------------------------------------------

    def _index(self, event: Json, out: list[op.Operation]) -> int | None:
        index = event.get("contentBlockIndex")
        if type(index) is int and index >= 0:
            return index
        out.append(op.Note("missing_slot", "error", "a content block event without its index"))
        return None

    def _begin(
        self,
        index: int,
        kind: op.BlockKind,
        out: list[op.Operation],
        ident: str | None = None,
        name: str | None = None,
        data: str | None = None,
        at: tuple[str, ...] = (),
    ) -> None:
        self._kinds[index] = kind
        self._open.add(index)
        self._calls = self._calls or kind == "tool_call"
        out.append(op.Start(0, index, kind, index, ident, name, data, at))

    def _start(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is None:
            return
        members = _present(event.get("start"))
        if index in self._kinds:
            kind = self._kinds[index] or "text"
            if self._kinds[index] is None:
                self._begin(index, kind, out)
            out.append(op.Start(0, index, kind, index))  # the slot is in use: its table names the finding
        elif not members:
            self._kinds[index] = None
        elif len(members) > 1:
            out.append(op.Note("unknown_event", "error", "a block of more than one kind", 0, index))
            self._begin(index, "tool_call", out)  # counts as a call, so the turn does not pass
        elif "toolUse" in members:
            self._tool_use(index, _map(members["toolUse"]), raw, out)
        else:
            self._verbatim(index, next(iter(members)), raw, out)

    def _tool_use(self, index: int, block: Json, raw: str, out: list[op.Operation]) -> None:
        word = block.get("type")
        kind = TOOL_KINDS.get(word) if isinstance(word, str) else "tool_call" if word is None else None
        if kind is None or block.get("input") is not None:
            out.append(op.Note("unknown_event", "error", "a tool use of a form that is not known", 0, index))
        ident, name = block.get("toolUseId"), block.get("name")
        data = slice_at(raw, ("contentBlockStart", "start", "toolUse")) if kind == "server_tool_call" else None
        self._begin(
            index,
            kind or "tool_call",
            out,
            ident if isinstance(ident, str) and ident else None,
            name if isinstance(name, str) and name else None,
            None if data is None else f'{{"toolUse":{data[:-1]},"input":{{}}}}}}',
            () if data is None else ("toolUse", "input"),
        )

    def _verbatim(self, index: int, member: str, raw: str, out: list[op.Operation]) -> None:
        """A block that is kept as it came: what opened it, then its deltas."""
        kind = STARTS.get(member)
        if kind is None:
            kind = "tool_call" if _is_tool_like(member) else "server_tool_result"
            out.append(op.Note("unknown_event", "error", "a block type that this normaliser does not know", 0, index))
        self._begin(index, kind, out)
        if kind != "tool_call":
            out.append(op.Delta(0, index, "part", slice_at(raw, ("contentBlockStart", "start")) or ""))

    def _delta(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is None:
            return
        members = _present(event.get("delta"))
        for member, value in members.items():
            if member == "reasoningContent":
                self._reasoning(index, _present(value), raw, out)
                continue
            row = DELTAS.get(member)
            if row is None:
                out.append(_unknown_delta(index))
                _never_dropped(member, out, index)
                continue
            field, kinds, opens = row
            if not self._fits(index, kinds, opens, out):
                continue
            text = _map(value).get("input") if member == "toolUse" else value
            if field in ("citation", "part"):
                text = slice_at(raw, ("contentBlockDelta", "delta", member))
            if isinstance(text, str):
                out.append(op.Delta(0, index, field, text))
            else:
                out.append(op.Note("unknown_event", "error", "a delta without its text", 0, index))
        if not members:
            out.append(_unknown_delta(index))

    def _reasoning(self, index: int, members: Json, raw: str, out: list[op.Operation]) -> None:
        for member, value in members.items():
            row = REASONING.get(member)
            if row is None or not isinstance(value, str):
                out.append(_unknown_delta(index))
                continue
            field, kind = row
            if not self._fits(index, frozenset({kind}), kind, out):
                continue
            if field == "signature":  # the slot keeps the last one; here it comes in pieces like any delta
                value = self._signatures[index] = self._signatures.get(index, "") + value
            elif field == "part":
                value = slice_at(raw, ("contentBlockDelta", "delta", "reasoningContent")) or ""
            out.append(op.Delta(0, index, field, value))
        if not members:
            out.append(_unknown_delta(index))

    def _fits(
        self, index: int, kinds: frozenset[op.BlockKind], opens: op.BlockKind | None, out: list[op.Operation]
    ) -> bool:
        """Whether a delta belongs to the block; opens the block where the delta does that."""
        kind = self._kinds.get(index)
        if kind is None and opens is not None:
            self._begin(index, opens, out)
            return True
        if kind in kinds:
            return True
        words = "a delta for a block that never began" if kind is None else "a delta of another kind than its block"
        out.append(op.Note("missing_slot", "error", words, 0, index))
        return False

    def _block_stop(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is None:
            return
        if index in self._kinds and self._kinds[index] is None:
            self._begin(index, "text", out)  # announced, and then it held nothing
        self._open.discard(index)
        out.append(op.Stop(0, index))


def _failure(name: str) -> op.Failure:
    """An exception by its name in the union, or by that of its shape, which begins with a capital."""
    return op.Failure(name, ERROR_CLASSES.get(name[:1].lower() + name[1:], "retryable"))


def _unknown_delta(index: int) -> op.Note:
    return op.Note("unknown_event", "error", "a delta type that this normaliser does not know", 0, index)


def _never_dropped(member: str, out: list[op.Operation], index: int | None = None) -> None:
    """What may be a part of a call blocks, also where no call is known yet."""
    if _is_tool_like(member):
        choice = None if index is None else 0
        out.append(op.Note("missing_slot", "error", "what may be a part of a call belongs to no slot", choice, index))


def _is_tool_like(member: str) -> bool:
    """Whether an unknown block may be a call: it counts as one then, so the turn does not pass."""
    word = member.lower()
    return not word.endswith("result") and ("tool" in word or "call" in word or "function" in word)


def _present(value: object) -> Json:
    """The members of a union that are there; null is absent."""
    return {name: member for name, member in _map(value).items() if member is not None}


def _map(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
