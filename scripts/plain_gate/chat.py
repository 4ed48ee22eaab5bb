"""Chat Completions chunks: the profiles `openai` and `mistral`.

A chunk holds choices, a choice a delta, a delta pieces of text and of calls. A call is known by its index among the
calls of its choice; its id and name come with its first piece. Nothing ends a single block: the finish reason ends all.
Mistral differs in four places, each marked with `self.mistral`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plain_gate.strict_json import text_at
from plain_gate.turn import CALL, Turn

OPENAI_STOPS = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "truncated",
    "content_filter": "filtered",
}
MISTRAL_STOPS = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "length": "truncated",
    "model_length": "truncated",
    "error": "error",
}
HARMLESS_FIELDS = {"annotations", "audio", "executed_tools", "obfuscation", "provider_metadata", "web_search_data"}
REASONING_FIELDS = {"reasoning", "reasoning_content", "reasoning_text"}
"""Other servers send these; the two APIs read here do not."""
MISTRAL_OPAQUE_CHUNKS = {"audio", "document_url", "file", "image_url", "input_audio"}

Json = dict[str, Any]


@dataclass
class Call:
    """A call that has begun. number: its block. slot: its index among the calls."""

    number: int
    slot: int
    ident: str | None
    name: str | None


@dataclass
class ChoiceSoFar:
    """prose: kind of the last block (None for a call); text of that kind goes on with it. by_index: calls by index."""

    number: int
    blocks: int = 0
    prose: str | None = None
    calls: list[Call] = field(default_factory=list)
    by_index: dict[int, Call] = field(default_factory=dict)
    unreadable_call: bool = False


class ChatReader:
    """Reads the chunks of one response into a turn."""

    def __init__(self, turn: Turn, *, mistral: bool) -> None:
        self.turn = turn
        self.mistral = mistral
        self.stops = MISTRAL_STOPS if mistral else OPENAI_STOPS
        self.response_id: str | None = None
        self.choices: dict[int, ChoiceSoFar] = {}

    def read(self, chunk: object, text: str) -> None:
        """One chunk. text: the same, exactly as received."""
        if not isinstance(chunk, dict):
            self.turn.find("unknown_event", "the event is not an object")
            return
        self._check_response_id(chunk.get("id"))
        choices, error, usage = chunk.get("choices"), chunk.get("error"), chunk.get("usage")
        if isinstance(choices, list):
            for place, choice in enumerate(choices):
                self._choice(choice, text, place)
        if isinstance(usage, dict) and usage:
            self.turn.count(usage, text_at(text, "usage"))
        bare = not isinstance(choices, list)
        if error or chunk.get("object") == "error" or (bare and error is not None):
            self.turn.fail()
        elif bare:
            self.turn.find("unknown_event", "the event has neither choices nor an error")

    def _check_response_id(self, ident: object) -> None:
        """The id of the response is the same in all its chunks; empty and null mean absent."""
        if not ident or ident == self.response_id:
            return
        if self.response_id is None and isinstance(ident, str):
            self.response_id = ident
            self.turn.name_response(ident)
        else:
            self.turn.find("identity_collision", "the response id changes inside the stream")

    # -- a choice -----------------------------------------------------------------------------------------------------

    def _choice(self, choice: object, text: str, place: int) -> None:
        if not isinstance(choice, dict):
            self.turn.find("unknown_event", "a choice is not an object")
            return
        number = choice.get("index")
        if not is_index(number):
            self.turn.find("missing_slot", "a choice without an index")
            return
        so_far = self.choices.setdefault(number, ChoiceSoFar(number))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            for name, value in delta.items():
                if value and name != "role":
                    self._delta(so_far, name, value, text, ("choices", place, "delta"))
        else:
            self._whole_message(so_far, choice)
        if choice.get("error"):
            self.turn.fail()
        reason = choice.get("finish_reason")
        if reason is not None and reason != "":
            stop = self.stops.get(reason, "unknown") if isinstance(reason, str) else "unknown"
            if stop == "error":
                self.turn.fail()
            if reason == "function_call" and not self.mistral and so_far.calls and not so_far.unreadable_call:
                self.turn.find("wrong_terminal_reason", "the label of the legacy function_call beside tool calls")
            self.turn.stop(number, stop)

    def _whole_message(self, so_far: ChoiceSoFar, choice: Json) -> None:
        """A message that comes whole is no stream; what is in it must not be lost in silence, nor run."""
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        if (choice.get("text") or message.get("content")) and not so_far.blocks:
            self.turn.find("missing_events", "the content came as a whole message, and no delta brought it")
        if message or choice.get("text"):
            self.turn.find("unknown_event", "a whole message where a delta is due")
        if any(value and may_hold_a_call(name) for name, value in message.items()):
            self._unreadable_call(so_far)

    def _delta(self, so_far: ChoiceSoFar, name: str, value: Any, text: str, path: tuple[str | int, ...]) -> None:
        """One field of a delta, not empty."""
        if name == "content" and isinstance(value, str):
            self._prose(so_far, "text", value)
        elif name == "content" and isinstance(value, list) and self.mistral:
            for place, chunk in enumerate(value):
                self._content_chunk(so_far, chunk, text, (*path, "content", place))
        elif name == "content":
            self.turn.find("unknown_event", "content is not text")
        elif name == "refusal" and isinstance(value, str):
            self._prose(so_far, "refusal", value)
        elif name == "tool_calls" and isinstance(value, list):
            for place, piece in enumerate(value):
                self._call_piece(so_far, piece, text, (*path, "tool_calls", place))
        elif name == "function_call":
            self.turn.find("missing_identity", "a legacy function_call has no id")
            self._unreadable_call(so_far)
        elif name not in HARMLESS_FIELDS and may_hold_a_call(name):
            self.turn.find("unknown_event", "an unknown field may hold a part of a call")
            self._unreadable_call(so_far)
        elif name in REASONING_FIELDS:
            self.turn.find("unknown_event", "a reasoning field that this API does not have")

    # -- text ---------------------------------------------------------------------------------------------------------

    def _block(self, so_far: ChoiceSoFar, kind: str, holds: str = "") -> None:
        """Begin a block behind those before it."""
        number = so_far.blocks
        so_far.blocks += 1
        so_far.prose = kind
        self.turn.begin(so_far.number, number, kind, number, holds=holds)

    def _prose(self, so_far: ChoiceSoFar, kind: str, text: str, use: str = "text") -> None:
        """Text goes on with the block before it where that is of its kind, and begins one otherwise."""
        if so_far.prose != kind:
            self._block(so_far, kind)
        self.turn.add(so_far.number, so_far.blocks - 1, text, use)

    def _content_chunk(self, so_far: ChoiceSoFar, chunk: object, text: str, path: tuple[str | int, ...]) -> None:
        """Mistral: content may be a list of chunks."""
        chunk = chunk if isinstance(chunk, dict) else {}
        kind = chunk.get("type")
        if kind == "text" and isinstance(chunk.get("text"), str):
            if chunk["text"]:
                self._prose(so_far, "text", chunk["text"])
        elif kind == "thinking":
            self._thinking_chunk(so_far, chunk, text, path)
        elif kind == "reference":
            self._prose(so_far, "text", text_at(text, *path), "json")
        elif isinstance(kind, str) and kind in MISTRAL_OPAQUE_CHUNKS:
            self._block(so_far, "opaque", holds=text_at(text, *path))
        else:
            self.turn.find("unknown_event", "a content chunk of an unknown type")
            if isinstance(kind, str) and may_hold_a_call(kind):
                self._unreadable_call(so_far)

    def _thinking_chunk(self, so_far: ChoiceSoFar, chunk: Json, text: str, path: tuple[str | int, ...]) -> None:
        inner = chunk.get("thinking")
        for place, part in enumerate(inner if isinstance(inner, list) else [inner]):
            kind = part.get("type") if isinstance(part, dict) else None
            said = part if isinstance(part, str) else part.get("text") if kind == "text" else None
            if isinstance(said, str):
                if said:
                    self._prose(so_far, "thinking", said)
            elif kind == "reference":
                reference = text_at(text, *path, "thinking", place) if isinstance(inner, list) else ""
                self._prose(so_far, "thinking", reference, "json")
            elif part is not None:
                self.turn.find("unknown_event", "a part of thinking of an unknown type")
        signature = chunk.get("signature")
        if isinstance(signature, str) and signature:
            self._prose(so_far, "thinking", signature, "word")

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call_piece(self, so_far: ChoiceSoFar, piece: object, text: str, path: tuple[str | int, ...]) -> None:
        if not isinstance(piece, dict) or piece.get("type") not in (None, "", "function"):
            self.turn.find("unknown_event", "a tool call that is not a function call")
            self._unreadable_call(so_far)
            return
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        ident, name = identity(piece.get("id")), identity(function.get("name"))
        if self.mistral and ident == "null":
            ident = None
        call = self._call_of(so_far, piece.get("index"), ident, name)
        if call is None:
            return
        arguments = function.get("arguments")
        if self.mistral and isinstance(arguments, dict):
            arguments = text_at(text, *path, "function", "arguments")
        if isinstance(arguments, str):
            self.turn.add(so_far.number, call.number, arguments)
        elif arguments is not None:
            self.turn.find("malformed_json", "arguments are not text", slot=f"{so_far.number}/{call.slot}")

    def _call_of(self, so_far: ChoiceSoFar, index: object, ident: str | None, name: str | None) -> Call | None:
        """The call that a piece belongs to, begun where it is the first one; None where it belongs nowhere."""
        if self.mistral and index is None and ident is not None:
            known = next((call for call in so_far.calls if call.ident == ident), None)
            if known is None:
                return self._new_call(so_far, len(so_far.calls), ident, name)
        elif is_index(index):
            known = so_far.by_index.get(index)
            if known is None:
                if ident is None or name is None:
                    slot = f"{so_far.number}/{index}"
                    self.turn.find("missing_identity", "the first piece of a call lacks its id or its name", slot=slot)
                so_far.by_index[index] = self._new_call(so_far, index, ident, name)
                return so_far.by_index[index]
        else:
            self.turn.find("missing_slot", "a piece of a call without an index", slot=f"{so_far.number}/None")
            return None
        slot = f"{so_far.number}/{known.slot}"
        if ident is not None and ident != known.ident:
            self.turn.find("identity_collision", "another call id on a slot in use", slot=slot)
        elif name is not None and (ident is None or name != known.name):
            self.turn.find("identity_collision", "another name on a slot in use", slot=slot)
        elif ident is not None:
            self.turn.find("identity_collision", "the same identity again", slot=slot, severity="note")
        return known

    def _new_call(self, so_far: ChoiceSoFar, slot: int, ident: str | None, name: str | None) -> Call:
        call = Call(so_far.blocks, slot, ident, name)
        so_far.calls.append(call)
        so_far.blocks += 1
        so_far.prose = None
        self.turn.begin(so_far.number, call.number, CALL, slot, ident, name)
        return call

    def _unreadable_call(self, so_far: ChoiceSoFar) -> None:
        """Something that may be a call, in a form that is never run: the turn counts as holding a call."""
        if not so_far.unreadable_call:
            so_far.unreadable_call = True
            self._new_call(so_far, -1, None, None)


def is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def identity(value: object) -> str | None:
    """Empty, null and absent are the same: absent."""
    return value if isinstance(value, str) and value else None


def may_hold_a_call(name: str) -> bool:
    return "tool" in name or "call" in name or "function" in name
