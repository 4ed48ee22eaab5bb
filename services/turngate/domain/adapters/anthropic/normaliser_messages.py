"""The reading of one Anthropic Messages stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from turngate.domain.adapters.anthropic.normaliser_tables import (
    DELTA_KINDS,
    DELTAS,
    ERROR_CLASSES,
    KINDS,
    SPENT_CODES,
    STOPS,
)
from turngate.domain.stream import operations as op
from turngate.domain.stream.rawjson import slice_at


class MessagesNormaliser:
    """The profile `anthropic`."""

    __slots__ = ("_content_seen", "_kinds", "_message", "_stop")

    def __init__(self) -> None:
        self._message: str | None = None
        self._content_seen = False
        self._kinds: dict[int, op.BlockKind] = {}
        self._stop: object = None

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        event = _map(value)
        name = event.get("type")
        handler = HANDLERS.get(name) if isinstance(name, str) else None
        if handler is None:
            out.append(op.Note("unknown_event", "error", "an event type that this normaliser does not know"))
            return
        if self._message is None and name not in ("message_start", "ping", "error"):
            out.append(op.Note("missing_events", "error", "content before message_start"))
        handler(self, event, raw, out)

    # -- the message -----------------------------------------------------------------------------------------

    def message_start(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        message = _map(event.get("message"))
        ident = message.get("id")
        ident = ident if isinstance(ident, str) else ""
        if self._message is not None:
            again = ident == self._message and not self._content_seen
            text = "message_start is repeated before any content" if again else "a second message_start"
            out.append(op.Note("identity_collision", "note" if again else "error", text))
            return
        self._message = ident
        if ident:
            out.append(op.Handle(ident))
        usage = message.get("usage")
        if isinstance(usage, dict):
            out.append(op.Usage(cast("dict[str, object]", usage), raw, ("message", "usage"), merge=True))
        content = message.get("content")
        if isinstance(content, list):
            self._whole_content(cast("list[object]", content), raw, out)
        self._stop_reason(message, out)

    def _whole_content(self, content: list[object], raw: str, out: list[op.Operation]) -> None:
        """A message that arrives complete in its start: every block begins and ends at once."""
        for index, block in enumerate(content):
            self._open(index, _map(block), raw, ("message", "content", index), out)
            out.append(op.Stop(0, index))

    def message_delta(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        usage = event.get("usage")
        if isinstance(usage, dict):
            out.append(op.Usage(cast("dict[str, object]", usage), raw, ("usage",), merge=True))
        self._stop_reason(_map(event.get("delta")), out)

    def _stop_reason(self, holder: dict[str, object], out: list[op.Operation]) -> None:
        """Several message_delta may repeat the stop reason; another one contradicts."""
        reason = holder.get("stop_reason")
        if reason is None or reason == self._stop:
            return
        self._stop = reason
        word = reason if isinstance(reason, str) else "(not text)"
        void: str | None = None
        if word == "refusal":
            explanation = _map(holder.get("stop_details")).get("explanation")
            void = explanation if isinstance(explanation, str) else ""
        out.append(op.TurnStop(0, word, STOPS.get(word, "unknown"), void))

    def message_stop(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        out.append(op.TurnEnd())

    def error(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        error = _map(event.get("error"))
        kind = error.get("type")
        word = kind if isinstance(kind, str) else "error"
        code = _map(error.get("details")).get("error_code")
        spent = isinstance(code, str) and code in SPENT_CODES
        out.append(op.Failure(word, "invalid_request" if spent else ERROR_CLASSES.get(word, "retryable")))

    # -- blocks ----------------------------------------------------------------------------------------------

    def _index(self, event: dict[str, object], out: list[op.Operation]) -> int | None:
        self._content_seen = True
        index = event.get("index")
        if type(index) is int and index >= 0:
            return index
        out.append(op.Note("missing_slot", "error", "a content block event without an index"))
        return None

    def start(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is not None:
            self._open(index, _map(event.get("content_block")), raw, ("content_block",), out)

    def _open(
        self,
        index: int,
        block: dict[str, object],
        raw: str,
        path: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        word = block.get("type")
        word = word if isinstance(word, str) else ""
        kind = KINDS.get(word)
        if kind is None:
            kind = "tool_call" if is_tool_like(word) else "server_tool_result"
            if not word.endswith("_tool_result"):
                out.append(
                    op.Note("unknown_event", "error", "a block type that this normaliser does not know", 0, index)
                )
        if index in self._kinds:
            out.append(op.Start(0, index, kind, index))  # the slot is in use: its table names the finding
            return
        self._kinds[index] = kind
        ident, name = block.get("id"), block.get("name")
        out.append(
            op.Start(
                0,
                index,
                kind,
                index,
                ident if isinstance(ident, str) and ident else None,
                name if isinstance(name, str) and name else None,
                slice_at(raw, path) if kind not in ("text", "thinking") else None,
                ("input",) if kind in ("tool_call", "server_tool_call") else (),
            )
        )
        self._first_content(index, kind, block, raw, path, out)

    def _first_content(
        self,
        index: int,
        kind: op.BlockKind,
        block: dict[str, object],
        raw: str,
        path: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        """What a block already holds when it begins. The empty `input` of a call is a placeholder."""
        if kind in ("tool_call", "server_tool_call"):
            given = block.get("input")
            if given is not None and given != {}:
                out.append(op.Delta(0, index, "arguments", slice_at(raw, (*path, "input")) or ""))
            return
        text = block.get("text" if kind == "text" else "thinking")
        if kind in ("text", "thinking") and isinstance(text, str) and text:
            out.append(op.Delta(0, index, "text", text))
        signature = block.get("signature")
        if kind == "thinking" and isinstance(signature, str) and signature:
            out.append(op.Delta(0, index, "signature", signature))
        citations = block.get("citations")
        if kind == "text" and isinstance(citations, list):
            for place in range(len(cast("list[object]", citations))):
                out.append(op.Delta(0, index, "citation", slice_at(raw, (*path, "citations", place)) or ""))

    def delta(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is None:
            return
        delta = _map(event.get("delta"))
        word = delta.get("type")
        known = DELTAS.get(word) if isinstance(word, str) else None
        if known is None or not isinstance(word, str):
            out.append(op.Note("unknown_event", "error", "a delta type that this normaliser does not know", 0, index))
            return
        kind = self._kinds.get(index)
        if kind is not None and kind not in DELTA_KINDS[word]:
            out.append(op.Note("missing_slot", "error", "a delta of another kind than its block", 0, index))
            return
        name, field = known
        value = delta.get(name) if name else None
        if field in ("citation", "part"):
            path = ("delta", name) if name else ("delta",)
            out.append(op.Delta(0, index, field, slice_at(raw, path) or ""))
        elif isinstance(value, str):
            out.append(op.Delta(0, index, field, value))
        else:
            out.append(op.Note("unknown_event", "error", "a delta without its text", 0, index))

    def continuation(self, value: object, delta: op.Delta) -> op.Continuation | None:
        """Further deltas of the same block and type."""
        word = _map(_map(value).get("delta")).get("type")
        name, field = DELTAS.get(word, ("", "part")) if isinstance(word, str) else ("", "part")
        index = delta.block
        if field != delta.field or field not in ("text", "arguments"):
            return None

        def more(event: Any, number: int | None) -> str | None:
            try:  # whatever has another shape is for `event` to judge
                inner = event["delta"]
                if event["type"] == "content_block_delta" and inner["type"] == word and event["index"] == index:
                    text = inner[name]
                    if text and type(text) is str and type(event["index"]) is int:
                        return text
            except (KeyError, TypeError):
                pass
            return None

        return op.Continuation(more)

    def ping(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        """Carries nothing."""

    def block_stop(self, event: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        index = self._index(event, out)
        if index is not None:
            out.append(op.Stop(0, index))


def is_tool_like(word: str) -> bool:
    """Whether an unknown block may be a call: it counts as one then, so the turn does not pass."""
    return not word.endswith("_tool_result") and ("tool" in word or "call" in word or "function" in word)


def _map(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


HANDLERS: Mapping[str, Callable[[MessagesNormaliser, dict[str, object], str, list[op.Operation]], None]] = {
    "content_block_delta": MessagesNormaliser.delta,
    "content_block_start": MessagesNormaliser.start,
    "content_block_stop": MessagesNormaliser.block_stop,
    "message_start": MessagesNormaliser.message_start,
    "message_delta": MessagesNormaliser.message_delta,
    "message_stop": MessagesNormaliser.message_stop,
    "error": MessagesNormaliser.error,
    "ping": MessagesNormaliser.ping,
}
