"""Messages events: the profile `anthropic`.

message_start, then blocks, each with a start, deltas and a stop, then message_delta with the stop reason, then
message_stop. A block is known by its index. `ping` may stand anywhere; an `error` event ends it all.
"""

from __future__ import annotations

from typing import Any

from plain_gate.chat import identity, is_index, may_hold_a_call
from plain_gate.strict_json import text_at
from plain_gate.turn import CALL, SERVER_CALL, Turn

STOPS = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "tool_use": "tool_calls",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    "compaction": "paused",
    "refusal": "filtered",
}
KINDS = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": CALL,
    "server_tool_use": SERVER_CALL,
    "mcp_tool_use": SERVER_CALL,
    "compaction": "opaque",
    "fallback": "opaque",
    "container_upload": "opaque",
}
"""Also every `*_tool_result` is opaque: it comes whole and is only ever given back."""
DELTAS: dict[object, tuple[str, tuple[str, ...]]] = {
    "text_delta": ("text", ("text",)),
    "thinking_delta": ("thinking", ("thinking",)),
    "signature_delta": ("signature", ("thinking",)),
    "input_json_delta": ("partial_json", (CALL, SERVER_CALL)),
    "citations_delta": ("citation", ("text",)),
    "compaction_delta": ("", ("opaque",)),
}
"""Type of a delta: the field with what it adds, and the kinds of block that take it."""
BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")

Json = dict[str, Any]


class MessagesReader:
    """Reads the events of one message into a turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.message_id: str | None = None
        self.stop_reason: object = None
        self.content_began = False
        self.kinds: dict[int, str] = {}

    def read(self, event: object, text: str) -> None:
        """One event. text: the same, exactly as received."""
        event = as_object(event)
        name = event.get("type")
        if self.message_id is None and name in (*BLOCK_EVENTS, "message_delta", "message_stop"):
            self.turn.find("missing_events", "content before message_start")
        if name == "message_start":
            self._message_start(as_object(event.get("message")), text)
        elif name in BLOCK_EVENTS:
            self._block_event(event, text)
        elif name == "message_delta":
            self._usage(event, text)
            self._stop(as_object(event.get("delta")))
        elif name == "message_stop":
            self.turn.end()
        elif name == "error":
            self.turn.fail()
        elif name != "ping":
            self.turn.find("unknown_event", "an event of an unknown type")

    # -- the message --------------------------------------------------------------------------------------------------

    def _message_start(self, message: Json, text: str) -> None:
        ident = identity(message.get("id")) or ""
        if self.message_id is not None:
            if ident == self.message_id and not self.content_began:
                self.turn.find("identity_collision", "message_start again before any content", severity="note")
            else:
                self.turn.find("identity_collision", "a second message_start")
            return
        self.message_id = ident
        if ident:
            self.turn.name_response(ident)
        self._usage(message, text, "message")
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):  # of a message that comes whole
            self._block_start(index, as_object(block), text, ("message", "content", index))
            self.turn.close(0, index)
        self._stop(message)

    def _usage(self, holder: Json, text: str, *path: str) -> None:
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self.turn.count(usage, text_at(text, *path, "usage"), add=True)

    def _stop(self, holder: Json) -> None:
        """Several message_delta may come and repeat the reason; another reason contradicts."""
        reason = holder.get("stop_reason")
        if reason is None or reason == self.stop_reason:
            return
        self.stop_reason = reason
        stop = STOPS.get(reason, "unknown") if isinstance(reason, str) else "unknown"
        words = identity(as_object(holder.get("stop_details")).get("explanation")) or ""
        self.turn.stop(0, stop, refusal=words if reason == "refusal" else None)

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _block_event(self, event: Json, text: str) -> None:
        self.content_began = True
        index = event.get("index")
        if not is_index(index):
            self.turn.find("missing_slot", "a content block event without an index")
        elif event["type"] == "content_block_start":
            self._block_start(index, as_object(event.get("content_block")), text, ("content_block",))
        elif event["type"] == "content_block_delta":
            self._delta(index, as_object(event.get("delta")), text)
        else:
            self.turn.close(0, index)

    def _block_start(self, index: int, block: Json, text: str, path: tuple[str | int, ...]) -> None:
        word = block.get("type")
        word = word if isinstance(word, str) else ""
        kind = KINDS.get(word)
        if kind is None:
            is_result = word.endswith("_tool_result")
            kind = CALL if may_hold_a_call(word) and not is_result else "opaque"
            if not is_result:
                self.turn.find("unknown_event", "a block of an unknown type", slot=f"0/{index}")
        is_new = index not in self.kinds
        self.kinds.setdefault(index, kind)
        holds = "" if kind in ("text", "thinking") or not is_new else text_at(text, *path)
        self.turn.begin(0, index, kind, index, identity(block.get("id")), identity(block.get("name")), holds=holds)
        if not is_new:
            return
        if kind in (CALL, SERVER_CALL):
            # An empty object is a placeholder for the input that follows; anything else is the input.
            if block.get("input") is not None and block["input"] != {}:
                self.turn.add(0, index, text_at(text, *path, "input"))
        elif kind in ("text", "thinking"):
            said, signature, citations = block.get(kind), block.get("signature"), block.get("citations")
            if isinstance(said, str) and said:
                self.turn.add(0, index, said)
            if kind == "thinking" and isinstance(signature, str) and signature:
                self.turn.add(0, index, signature, "word")
            for place in range(len(citations) if kind == "text" and isinstance(citations, list) else 0):
                self.turn.add(0, index, text_at(text, *path, "citations", place), "json")

    def _delta(self, index: int, delta: Json, text: str) -> None:
        slot, word = f"0/{index}", delta.get("type")
        if not isinstance(word, str) or word not in DELTAS:
            self.turn.find("unknown_event", "a delta of an unknown type", slot=slot)
            return
        name, kinds = DELTAS[word]
        if self.kinds.get(index, kinds[0]) not in kinds:
            self.turn.find("missing_slot", "a delta of another kind than its block", slot=slot)
        elif name in ("", "citation"):
            self.turn.add(0, index, text_at(text, "delta", *([name] if name else [])), "json")
        elif isinstance(delta.get(name), str):
            self.turn.add(0, index, delta[name], "word" if name == "signature" else "text")
        else:
            self.turn.find("unknown_event", "a delta without its text", slot=slot)


def as_object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
