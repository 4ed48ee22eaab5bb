"""Chat Completions chunks to block operations: what the strict and the tolerant profile share, and the
strict one.

The stream names no text blocks: text, refusal, reasoning and calls become blocks in their order of arrival.
A call's slot is (choice.index, tool_calls[].index). Blocks have no end event; the finish reason ends them
all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from turngate.domain.adapters.openai_chat.normaliser_tables import (
    AUTH_WORDS,
    IGNORABLE_DELTA_KEYS,
    INVALID_WORDS,
    LEGACY_STOP,
    REASONING_KEYS,
    STRICT_STOPS,
    is_tool_like,
)
from turngate.domain.stream import operations as op
from turngate.domain.stream.findings import GateCode, Severity

_REFUSED = -1
"""Slot of a call in a form that is never run; it exists so that the turn is known to hold a call."""


class CallRef:
    """What the normaliser remembers of one call. idless: a fragment without an id went to it. name: the first
    that came."""

    __slots__ = ("block", "ident", "idless", "name", "number")

    def __init__(self, block: int, number: int, ident: str | None, name: str | None) -> None:
        self.block = block
        self.number = number
        self.ident = ident
        self.idless = False
        self.name = name


class ChoiceState:
    """Blocks of one choice in order of arrival."""

    __slots__ = ("by_index", "calls", "next_block", "number", "open_kind", "reused", "stop")

    def __init__(self, number: int) -> None:
        self.number = number
        self.next_block = 0
        self.open_kind: op.BlockKind | None = None
        self.by_index: dict[int, CallRef] = {}
        self.calls: list[CallRef] = []
        self.reused: set[int] = set()
        self.stop: op.StopClass | None = None

    def new_block(self, kind: op.BlockKind | None) -> int:
        """The next block number; `kind` is what following prose of that kind may go on with (None for a
        call)."""
        self.open_kind = kind
        self.next_block += 1
        return self.next_block - 1


class ChatNormaliser:
    """The strict profile `openai`: what the API documents, and nothing else beside a call."""

    stops: Mapping[str, op.StopClass] = STRICT_STOPS
    legacy_label: Severity = "error"
    """What the legacy stop label beside calls of the present form means."""
    prose_keys: tuple[str, ...] = ("content",)
    index_decides = True
    """Whether a fragment without an id goes on with the call of its index."""

    def __init__(self) -> None:
        self._choices: dict[int, ChoiceState] = {}
        self._handle: str | None = None

    # -- one chunk -------------------------------------------------------------------------------------------

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        chunk = as_map(value)
        if chunk is None:
            out.append(op.Note("unknown_event", "error", "the event is not an object"))
            return
        handle = chunk.get("id")
        if handle != self._handle and handle:
            self._bind(handle, out)
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for place, choice in enumerate(cast("list[object]", choices)):
                self._choice(choice, place, raw, out)
        usage = as_map(chunk.get("usage"))
        if usage:
            out.append(op.Usage(usage, raw, ("usage",)))
        if "error" in chunk or not isinstance(choices, list):
            self._beside_choices(chunk, out)
        self.extras(chunk, raw, out)

    def extras(self, chunk: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        """Fields other servers add to a chunk; the strict profile knows none."""

    def _bind(self, handle: object, out: list[op.Operation]) -> None:
        if self._handle is None and isinstance(handle, str):
            self._handle = handle
            out.append(op.Handle(handle))
        else:
            self.handle_changed(out)

    def handle_changed(self, out: list[op.Operation]) -> None:
        out.append(op.Note("identity_collision", "error", "the response id changes inside the stream"))

    def _beside_choices(self, chunk: dict[str, object], out: list[op.Operation]) -> None:
        """A chunk with an error or without choices."""
        error = chunk.get("error")
        bare = not isinstance(chunk.get("choices"), list)
        if error or (bare and error is not None) or chunk.get("object") == "error":
            out.append(failure(error if error else chunk))
        elif bare and not self.may_lack_choices(chunk):
            out.append(op.Note("unknown_event", "error", "the event has neither choices nor an error"))

    def may_lack_choices(self, chunk: dict[str, object]) -> bool:
        return False

    # -- one choice ------------------------------------------------------------------------------------------

    def _choice(self, value: object, place: int, raw: str, out: list[op.Operation]) -> None:
        choice = as_map(value)
        if choice is None:
            out.append(op.Note("unknown_event", "error", "a choice is not an object"))
            return
        number = choice.get("index")
        if type(number) is not int or number < 0:
            number = self.choice_number(choice, place, out)
            if number is None:
                return
        state = self._choices.get(number)
        if state is None:
            state = self._choices[number] = ChoiceState(number)
        delta = as_map(choice.get("delta"))
        if delta:
            self._delta(state, delta, raw, (place, "delta"), out)
        elif delta is None:
            self.without_delta(state, choice, out)
        if choice.get("error"):
            out.append(failure(choice["error"]))
        reason = choice.get("finish_reason")
        if reason is not None and reason != "":
            self._finish(state, reason, out)

    def choice_number(self, choice: dict[str, object], place: int, out: list[op.Operation]) -> int | None:
        out.append(op.Note("missing_slot", "error", "a choice without an index"))
        return None

    def without_delta(self, state: ChoiceState, choice: dict[str, object], out: list[op.Operation]) -> None:
        """A whole message is no stream: it is not read, and a call in it keeps the turn from passing."""
        message = as_map(choice.get("message"))
        text = choice.get("text") or (message or {}).get("content")
        if text and state.next_block == 0:
            text = "the content came as a whole message, and no delta brought it"
            out.append(op.Note("missing_events", "error", text, state.number, None))
        if message or choice.get("text"):
            out.append(op.Note("unknown_event", "error", "a whole message where a delta is due"))
            if message and any(value and is_tool_like(key) for key, value in message.items()):
                self.refused_call(state, out)

    def _delta(
        self,
        state: ChoiceState,
        delta: dict[str, object],
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        for key, value in delta.items():
            if not value or key == "role":
                continue
            if key == "content":
                self.content(state, value, raw, path, out)
            elif key == "tool_calls":
                self._tool_calls(state, value, raw, path, out)
            elif key == "refusal" and isinstance(value, str):
                self.prose(state, "refusal", value, out)
            elif key == "function_call":
                self.legacy_call(state, value, out)
            elif key not in IGNORABLE_DELTA_KEYS:
                self.unknown_delta(state, key, delta, raw, path, out)

    # -- runs ------------------------------------------------------------------------------------------------

    def continuation(self, value: object, delta: op.Delta) -> op.Continuation | None:
        """Further chunks of the same response with one choice, whose delta has the same one field."""
        choices = (as_map(value) or {}).get("choices")
        choice = as_map(choices[0]) if isinstance(choices, list) and len(choices) == 1 else None
        if choice is None or self._choices.get(delta.choice) is not (state := self._choices.get(0)) or state is None:
            return None
        fields = as_map(choice.get("delta")) or {}
        if delta.field == "arguments":
            call = next((call for call in state.calls if call.block == delta.block), None)
            if call is None or state.by_index.get(call.number) is not call or call.number in state.reused:
                return None
            if not self.index_decides:
                return None

            def took(texts: list[str], whole: str) -> None:
                call.idless = True

            reads = self._more_of_choice("tool_calls", lambda value: _more_arguments(call.number, value))
            return op.Continuation(reads, took=took)
        names = [key for key in fields if key != "role"]
        if len(names) != 1 or names[0] not in self.prose_keys or fields[names[0]] != delta.text:
            return None
        return op.Continuation(self._more_of_choice(names[0], None))

    def _more_of_choice(
        self, key: str, read: Callable[[object], str | None] | None
    ) -> Callable[[Any, int | None], str | None]:
        handle = self._handle

        def more(chunk: Any, number: int | None) -> str | None:
            try:  # whatever has another shape is for `event` to judge
                (choice,) = chunk["choices"]
                delta = choice["delta"]
                found = delta[key]
                if (
                    chunk.get("id") != handle
                    or choice["index"] != 0
                    or choice.get("finish_reason") is not None
                    or chunk.get("usage") is not None
                    or type(choice["index"]) is not int
                    or (len(delta) != 1 and not (len(delta) == 2 and "role" in delta))
                    or "error" in chunk
                    or "x_groq" in chunk
                    or "error" in choice
                ):
                    return None
                if read is not None:
                    return read(found)
                return found if found and type(found) is str else None
            except (KeyError, TypeError, ValueError):
                return None

        return more

    def content(
        self,
        state: ChoiceState,
        value: object,
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        if isinstance(value, str):
            self.prose(state, "text", value, out)
        else:
            out.append(op.Note("unknown_event", "error", "content is not text"))

    def prose(self, state: ChoiceState, kind: op.BlockKind, text: str, out: list[op.Operation]) -> None:
        """Text of a kind: goes on with the block before it if that is of the same kind, otherwise begins
        one."""
        if state.open_kind != kind:
            if state.open_kind is not None and state.stop is None:
                out.append(op.Stop(state.number, state.next_block - 1))
            block = state.new_block(kind)
            out.append(op.Start(state.number, block, kind, block))
        out.append(op.Delta(state.number, state.next_block - 1, "text", text))

    def unknown_delta(
        self,
        state: ChoiceState,
        key: str,
        delta: dict[str, object],
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        if is_tool_like(key):
            self.tool_like(state, out)
        elif key in REASONING_KEYS:
            out.append(op.Note("unknown_event", "error", "a reasoning field this profile does not know"))

    def tool_like(self, state: ChoiceState, out: list[op.Operation]) -> None:
        """An unknown field that may hold a part of a call: the turn counts as holding one and does not pass."""
        out.append(op.Note("unknown_event", "error", "a tool-like field that this profile does not know"))
        self.refused_call(state, out)

    def legacy_call(self, state: ChoiceState, value: object, out: list[op.Operation]) -> None:
        """`function_call` has no call id: it is kept as a call so that nothing of the turn runs."""
        self.refused_call(state, out)
        out.append(op.Note("missing_identity", "error", "a legacy function_call has no id", state.number, _REFUSED))

    def refused_call(self, state: ChoiceState, out: list[op.Operation]) -> None:
        if _REFUSED not in state.by_index:
            self.open_call(state, _REFUSED, None, None, out)

    # -- tool calls ------------------------------------------------------------------------------------------

    def _tool_calls(
        self, state: ChoiceState, value: object, raw: str, path: tuple[int, str], out: list[op.Operation]
    ) -> None:
        if not isinstance(value, list):
            self.tool_like(state, out)
            return
        for place, item in enumerate(cast("list[object]", value)):
            entry = as_map(item)
            kind = None if entry is None else entry.get("type")
            if entry is None or kind not in (None, "", "function"):
                self.refused_call(state, out)
                out.append(op.Note("unknown_event", "error", "a tool call that is not a function call"))
                continue
            function = as_map(entry.get("function")) or {}
            ident, name = self.call_id(entry.get("id")), identity(function.get("name"))
            if not (ident or name or function.get("arguments")) and self.may_be_empty(state, entry.get("index")):
                continue
            call = self.locate(state, entry.get("index"), ident, name, out)
            if call is not None:
                where: tuple[str | int, ...] = (
                    "choices",
                    path[0],
                    path[1],
                    "tool_calls",
                    place,
                    "function",
                    "arguments",
                )
                self.arguments(state, call, function.get("arguments"), raw, where, out)

    def call_id(self, value: object) -> str | None:
        return identity(value)

    def may_be_empty(self, state: ChoiceState, index: object) -> bool:
        """Whether a fragment that names nothing and holds nothing may be passed over."""
        return False

    def locate(
        self, state: ChoiceState, index: object, ident: str | None, name: str | None, out: list[op.Operation]
    ) -> CallRef | None:
        """The call a fragment belongs to, opened where it is the first; None where the fragment belongs
        nowhere."""
        if type(index) is not int or index < 0:
            out.append(op.Note("missing_slot", "error", "a tool call fragment without an index", state.number, None))
            return None
        call = state.by_index.get(index)
        if call is None:
            if ident is None or name is None:
                text = "the first fragment of a call lacks its id or name"
                out.append(op.Note("missing_identity", "error", text, state.number, index))
            return self.open_call(state, index, ident, name, out)
        self.named_again(state, call, ident, name, out)
        return call

    def named_again(
        self, state: ChoiceState, call: CallRef, ident: str | None, name: str | None, out: list[op.Operation]
    ) -> None:
        """A later fragment names its call: the very same id and name, or it is another call's."""
        if ident is not None and ident != call.ident:
            out.append(collision(state, call.number, "another call id on a slot in use"))
        elif name is not None and (ident is None or name != call.name):
            out.append(collision(state, call.number, "another name on a slot in use"))
        elif ident is not None:
            out.append(op.Note("identity_collision", "note", "the same identity again", state.number, call.number))

    def open_call(
        self,
        state: ChoiceState,
        index: int | None,
        ident: str | None,
        name: str | None,
        out: list[op.Operation],
    ) -> CallRef:
        """Begin a call's block. Text that comes later begins a block of its own, so order is kept."""
        if state.open_kind is not None and state.stop is None:
            out.append(op.Stop(state.number, state.next_block - 1))
        block = state.new_block(None)
        number = len(state.calls) if index is None else index
        call = CallRef(block, number, ident, name)
        state.calls.append(call)
        if index is not None:
            state.by_index[index] = call
        out.append(op.Start(state.number, block, "tool_call", number, ident, name))
        return call

    def arguments(
        self,
        state: ChoiceState,
        call: CallRef,
        value: object,
        raw: str,
        where: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        if isinstance(value, str):
            out.append(op.Delta(state.number, call.block, "arguments", value))
        elif value is not None:
            out.append(op.Note("malformed_json", "error", "arguments are not text", state.number, call.number))

    # -- finish ----------------------------------------------------------------------------------------------

    def _finish(self, state: ChoiceState, reason: object, out: list[op.Operation]) -> None:
        word = reason if isinstance(reason, str) else "(not text)"
        stop = self.stops.get(word, "unknown")
        if state.stop is not None and self.finish_again(state, stop, out):
            return
        state.stop = state.stop or stop
        if word == LEGACY_STOP and state.calls and _REFUSED not in state.by_index:
            text = "the label of the legacy function_call beside tool calls"
            out.append(op.Note("wrong_terminal_reason", self.legacy_label, text, state.number, None))
        if stop == "error":
            out.append(op.Failure("finish_reason", "retryable"))
        out.append(op.TurnStop(state.number, word, stop))

    def finish_again(self, state: ChoiceState, stop: op.StopClass, out: list[op.Operation]) -> bool:
        """Whether a further finish reason of the choice is to be passed over. Strict: never."""
        return False


def _more_arguments(number: int, value: Any) -> str | None:
    """The argument text of the only fragment, where it names nothing but the call's index, `number`.

    Another shape raises KeyError, TypeError or ValueError.
    """
    (entry,) = value
    function = entry["function"]
    text, index = function["arguments"], entry["index"]
    if (
        index != number
        or type(index) is not int
        or entry.get("id")
        or function.get("name")
        or entry.get("type", "function") != "function"
        or not text
        or type(text) is not str
    ):
        return None
    return text


def as_map(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def identity(value: object) -> str | None:
    """Empty, null, absent and non-text identity are the same thing: absent."""
    return value if isinstance(value, str) and value else None


def collision(state: ChoiceState, index: int, message: str) -> op.Note:
    code: GateCode = "identity_collision"
    return op.Note(code, "error", message, state.number, index)


def failure(error: object) -> op.Failure:
    """An in-stream error object, classed by its own type and code words."""
    detail = as_map(error) or {}
    words = {str(detail.get(key)).lower() for key in ("type", "code", "status") if detail.get(key) is not None}
    error_class: op.ErrorClass = "retryable"
    if words & AUTH_WORDS:
        error_class = "auth"
    elif words & INVALID_WORDS and "tool_use_failed" not in words:
        error_class = "invalid_request"
    kind = detail.get("type")
    return op.Failure(kind if isinstance(kind, str) else "error", error_class)
