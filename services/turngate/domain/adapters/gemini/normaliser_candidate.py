"""One candidate of a Gemini response: its parts in order of arrival, and how it stops."""

from __future__ import annotations

from typing import cast

from turngate.domain.adapters.gemini import normaliser_tables as tables
from turngate.domain.adapters.gemini.partial_arguments import PartialArguments
from turngate.domain.adapters.openai_chat.normaliser_tables import is_tool_like
from turngate.domain.stream import operations as op
from turngate.domain.stream.findings import GateCode
from turngate.domain.stream.rawjson import slice_at

Path = tuple[str | int, ...]

_REFUSED = -1
"""Slot of a part that may be a call in a form that is never run."""


class _OpenCall:
    """A call whose arguments are still to come."""

    __slots__ = ("arguments", "block", "ident", "name", "number")

    def __init__(self, block: int, number: int, ident: str | None, name: str) -> None:
        self.block = block
        self.number = number
        self.ident = ident
        self.name = name
        self.arguments = PartialArguments()


class Candidate:
    """open_kind: what prose may go on with. stop, word: the last finish reason, None once the turn goes on.

    ends_again: a call in pieces has just ended, and its end mark may still come.
    """

    __slots__ = ("calls", "ends_again", "next_block", "number", "open_call", "open_kind", "refused", "stop", "word")

    def __init__(self, number: int) -> None:
        self.number = number
        self.next_block = 0
        self.calls = 0
        self.open_kind: op.BlockKind | None = None
        self.open_call: _OpenCall | None = None
        self.ends_again = False
        self.refused = False
        self.stop: op.StopClass | None = None
        self.word = ""

    # -- parts -----------------------------------------------------------------------------------------------

    def content(
        self, content: dict[str, object] | None, raw: str, place: int, handle: str, out: list[op.Operation]
    ) -> None:
        parts = None if content is None else content.get("parts", [])
        if content is None or not isinstance(parts, list):
            self._unknown("content in a form that this normaliser does not know", out)
            return
        for key in sorted(content.keys() - tables.CONTENT_KEYS):
            out.append(unknown_field(key, "a field of the content that this normaliser does not know"))
        for number, item in enumerate(cast("list[object]", parts)):
            part = as_map(item)
            if part is None:
                self._unknown("a part is not an object", out)
                continue
            self._part(part, raw, ("candidates", place, "content", "parts", number), handle, out)

    def _part(self, part: dict[str, object], raw: str, path: Path, handle: str, out: list[op.Operation]) -> None:
        text = part.get("text")
        kind: op.BlockKind = "thinking" if part.get("thought") is True else "text"
        if isinstance(text, str) and len(part) == (2 if kind == "thinking" else 1):
            if text:
                self._prose(kind, text, out)  # nearly every part of a stream
            return
        kinds = part.keys() - tables.PART_BESIDE
        if len(kinds) > 1:
            self._unknown_part(kinds, out)
            return
        word = next(iter(kinds), "")
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) and signature else None
        if word == "functionCall":
            self._call(as_map(part[word]), signature, raw, (*path, word), handle, out)
        elif word in tables.PART_KINDS:
            self._opaque(tables.PART_KINDS[word], as_map(part[word]) or {}, signature, raw, path, out)
        elif word == "" or (word == "text" and isinstance(text, str)):
            if signature is not None:
                self._signed(kind if word else "thinking", text or "", signature, raw, path, out)
            elif isinstance(text, str) and text:
                self._prose(kind, text, out)
        else:
            self._unknown_part(kinds, out)

    def _prose(self, kind: op.BlockKind, text: str, out: list[op.Operation]) -> None:
        if self.open_kind != kind or self.stop is not None:
            block = self._new_block(out)
            self.open_kind = kind
            out.append(op.Start(self.number, block, kind, block))
        out.append(op.Delta(self.number, self.next_block - 1, "text", text))

    def _signed(
        self, kind: op.BlockKind, text: object, signature: str, raw: str, path: Path, out: list[op.Operation]
    ) -> None:
        """A signed part is a block of its own. One without text is kept verbatim, or it would be an empty text."""
        block = self._new_block(out)
        data = None if text else slice_at(raw, path)
        out.append(op.Start(self.number, block, kind, block, data=data))
        if text:
            out.append(op.Delta(self.number, block, "text", str(text)))
        out.append(op.Delta(self.number, block, "signature", signature))
        out.append(op.Stop(self.number, block))

    def _opaque(
        self,
        kind: op.BlockKind,
        value: dict[str, object],
        signature: str | None,
        raw: str,
        path: Path,
        out: list[op.Operation],
    ) -> None:
        if kind == "image" and not str(value.get("mimeType")).startswith("image/"):
            kind = "document"
        block = self._new_block(out)
        ident, name = _identity(value.get("id")), _identity(value.get("toolType"))
        out.append(op.Start(self.number, block, kind, block, ident, name, slice_at(raw, path)))
        if signature is not None:
            out.append(op.Delta(self.number, block, "signature", signature))
        out.append(op.Stop(self.number, block))

    def _new_block(self, out: list[op.Operation]) -> int:
        """The next block's number; what was open ends, and a provisional stop was not the end."""
        if self.stop == "complete":
            out.append(op.Reopen(self.number))
            self.stop = None
        self._close_prose(out)
        self.ends_again = False
        self.next_block += 1
        return self.next_block - 1

    def _close_prose(self, out: list[op.Operation]) -> None:
        if self.open_kind is not None:
            out.append(op.Stop(self.number, self.next_block - 1))
            self.open_kind = None

    def _unknown(self, message: str, out: list[op.Operation]) -> None:
        out.append(op.Note("unknown_event", "error", message))

    def _unknown_part(self, kinds: set[str], out: list[op.Operation]) -> None:
        """A part that may be a call counts as one, so that the turn does not pass."""
        self._unknown("a part that this normaliser does not know", out)
        if any("call" in kind.lower() or "tool" in kind.lower() or "function" in kind.lower() for kind in kinds):
            self._refuse(out)

    def _refuse(self, out: list[op.Operation]) -> None:
        if not self.refused:
            self.refused = True
            block = self._new_block(out)
            self.calls += 1
            out.append(op.Start(self.number, block, "tool_call", _REFUSED))
            out.append(op.Stop(self.number, block))

    # -- calls -----------------------------------------------------------------------------------------------

    def _call(
        self,
        call: dict[str, object] | None,
        signature: str | None,
        raw: str,
        path: Path,
        handle: str,
        out: list[op.Operation],
    ) -> None:
        if call == {} and signature is None and self.stop is None and self.ends_again:
            self.ends_again = False  # the last piece said nothing of more to come, so nothing was open
            return
        if call is None or not call.keys() <= tables.CALL_KEYS:
            self._unknown("a functionCall in a form that this normaliser does not know", out)
        call = call or {}
        ident, name = _identity(call.get("id")), _identity(call.get("name"))
        items = call.get("partialArgs")
        more = call.get("willContinue") is True
        current = self.open_call
        if current is None or (name is not None and (name, ident) != (current.name, current.ident or "")):
            current = self._begin(ident, name, signature, handle, out)
            if current is None:
                return
            if items is None and not more:
                given = None if call.get("args") is None else slice_at(raw, (*path, "args"))
                out.append(op.Delta(self.number, current.block, "arguments", given or "{}"))
                out.append(op.Stop(self.number, current.block))
                return
            self.open_call = current
        else:
            self._go_on(current, ident, signature, out)
        if call.get("args"):
            current.arguments.fault = ("malformed_json", "whole arguments beside partial ones")
        self._pieces(current, items, raw, path, out)
        if not more:
            self._complete(current, out)

    def _begin(
        self, ident: str | None, name: str | None, signature: str | None, handle: str, out: list[op.Operation]
    ) -> _OpenCall | None:
        if name is None:
            self._find("missing_slot", "a functionCall without a name while no call is open", None, out)
            self._refuse(out)
            return None
        if self.open_call is not None:
            text = "another call begins before the arguments of this one have ended"
            self._find("missing_terminal", text, self.open_call.number, out)
            self.open_call = None
        block = self._new_block(out)
        number = self.calls
        self.calls += 1
        minted = f"{tables.MINTED}{handle}-{number}" if handle else f"{tables.MINTED}{number}"
        out.append(op.Start(self.number, block, "tool_call", number, ident or minted, name))
        if signature is not None:
            out.append(op.Delta(self.number, block, "signature", signature))
        return _OpenCall(block, number, ident, name)

    def _go_on(self, current: _OpenCall, ident: str | None, signature: str | None, out: list[op.Operation]) -> None:
        # Empty: only so that a piece after the stop is seen as one.
        out.append(op.Delta(self.number, current.block, "arguments", ""))
        if ident is not None and ident != current.ident:
            self._find("identity_collision", "another call id while a call is open", current.number, out)
        if signature is not None:
            out.append(op.Delta(self.number, current.block, "signature", signature))

    def _pieces(self, current: _OpenCall, items: object, raw: str, path: Path, out: list[op.Operation]) -> None:
        if items is None:
            return
        if not isinstance(items, list):
            current.arguments.fault = ("malformed_json", "partial arguments are not a list")
            return
        for place, item in enumerate(cast("list[object]", items)):
            entry = as_map(item) or {}
            number = slice_at(raw, (*path, "partialArgs", place, "numberValue")) if "numberValue" in entry else None
            current.arguments.add(entry, number)

    def _complete(self, current: _OpenCall, out: list[op.Operation]) -> None:
        self.open_call = None
        self.ends_again = True
        text = current.arguments.text()
        if current.arguments.fault is not None:
            code, message = current.arguments.fault
            self._find(code, message, current.number, out)
        out.append(op.Delta(self.number, current.block, "arguments", text or ""))
        out.append(op.Stop(self.number, current.block))

    def _find(self, code: GateCode, message: str, slot: int | None, out: list[op.Operation]) -> None:
        out.append(op.Note(code, "error", message, self.number, slot))

    # -- beside the parts ------------------------------------------------------------------------------------

    def beside(self, candidate: dict[str, object], raw: str, place: int, out: list[op.Operation]) -> None:
        for key in sorted(candidate.keys() - tables.CANDIDATE_KEYS - tables.CANDIDATE_IGNORABLE):
            if key not in tables.CANDIDATE_KEPT:
                out.append(unknown_field(key, "a field of a candidate that this normaliser does not know"))
        for key, field in tables.CANDIDATE_KEPT.items():
            if candidate.get(key):
                exact = slice_at(raw, ("candidates", place, key))
                self._keep(field, f'{{"{key}":{exact}}}', out)

    def _keep(self, field: op.DeltaField, text: str, out: list[op.Operation]) -> None:
        """What the API says about its answer is no content: after the stop it changes nothing of it."""
        if self.open_kind == "text" and self.stop is None:
            out.append(op.Delta(self.number, self.next_block - 1, field, text))
            return
        stop = self.stop
        if stop is not None and stop != "complete":
            out.append(op.Reopen(self.number))
        block = self._new_block(out)
        out.append(op.Start(self.number, block, "server_tool_result", block, data=text))
        out.append(op.Stop(self.number, block))
        if stop is not None:
            self.stop = stop
            out.append(op.TurnStop(self.number, self.word, stop))

    # -- the stop --------------------------------------------------------------------------------------------

    def finish(self, reason: object, message: str, out: list[op.Operation]) -> None:
        stop: op.StopClass = "unknown"
        if isinstance(reason, str):
            stop = tables.STOPS.get(reason, "unknown")
        elif type(reason) is int:
            stop = tables.STOP_NUMBERS.get(reason, "unknown")
        word = str(reason) if isinstance(reason, (str, int)) else "(not a word)"
        if stop == "complete" and self.calls:
            stop = "tool_calls"
        if stop == "error":
            out.append(op.Failure(word, "invalid_request" if word in tables.REQUEST_DEFECTS else "retryable"))
        self.stop_with(word, stop, message, out)

    def stop_with(self, word: str, stop: op.StopClass, message: str, out: list[op.Operation]) -> None:
        """A filtered answer without any content is a refusal in the provider's words."""
        if self.stop == stop and self.word == word:
            out.append(op.Note("duplicate_terminal", "note", "the finish reason is repeated", self.number, None))
            return
        if self.stop == "complete":
            out.append(op.Reopen(self.number))
        self._close_prose(out)
        self.stop, self.word = stop, word
        void = message if stop == "filtered" and self.next_block == 0 else None
        out.append(op.TurnStop(self.number, word, stop, void))


def as_map(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _identity(value: object) -> str | None:
    """Empty, null, absent and non-text identity are the same thing: absent."""
    return value if isinstance(value, str) and value else None


def unknown_field(key: str, message: str) -> op.Note:
    """APIs gain fields: one is noted and means nothing, unless its name says that it may hold a part of a call."""
    return op.Note("unknown_event", "error" if is_tool_like(key.lower()) else "note", message)
