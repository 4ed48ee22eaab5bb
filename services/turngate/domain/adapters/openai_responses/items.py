"""The output items of one response under construction, and the checks of what ends them."""

from __future__ import annotations

import zlib
from typing import cast

import orjson

from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.domain.adapters.openai_responses.normaliser_tables import Family
from turngate.domain.stream import operations as op
from turngate.domain.stream.findings import GateCode
from turngate.domain.stream.rawjson import again, replaced, slice_at

Json = dict[str, object]
Path = tuple[str | int, ...]


class Part:
    """One text of an item. characters, total: length and CRC32 of what came in pieces. done: its own end came."""

    __slots__ = ("block", "characters", "done", "family", "total")

    def __init__(self, family: Family, block: int) -> None:
        self.family = family
        self.block = block
        self.characters = 0
        self.total = 0
        self.done = False

    def add(self, data: bytes, characters: int) -> None:
        self.total = zlib.crc32(data, self.total)
        self.characters += characters

    def says(self, text: str) -> bool:
        return self.characters == len(text) and self.total == zlib.crc32(_bytes(text))


class Item:
    """What is known of one output item. begun: it has a block. done: its end came. cut: its end calls it incomplete,
    which only a response that was cut itself explains."""

    __slots__ = ("begun", "cut", "done", "ident", "index", "kind", "name", "parts", "word")

    def __init__(self, index: int, word: str, kind: tables.ItemClass) -> None:
        self.index = index
        self.word = word
        self.kind: tables.ItemClass = kind
        self.ident: str | None = None
        self.name: str | None = None
        self.parts: dict[tuple[str, int], Part] = {}
        self.begun = False
        self.done = False
        self.cut = False

    @property
    def block(self) -> int:
        """The number of the item's first block."""
        return self.index * tables.PARTS_MAX

    def begin(self, value: Json, out: list[op.Operation]) -> None:
        """A call begins with its item; all others with their first text, or when they are whole."""
        if self.kind not in tables.CALLS:
            return
        self.begun = True
        self.ident = text_of(value.get("call_id"))
        self.name = text_of(value.get("name"))
        name = self.name if self.kind != "client" else self.word
        out.append(op.Start(0, self.block, "tool_call", self.index, self.ident, name))
        if self.kind != "function":
            self.note(out, "unknown_tool", "a call of a kind that is never run here")

    def part(self, family: Family, place: int, out: list[op.Operation]) -> Part | None:
        """The part, begun where it is the first time; None where the item has too many."""
        key = (family.part or "", place)
        part = self.parts.get(key)
        if part is None:
            if len(self.parts) >= tables.PARTS_MAX:
                self.note(out, "too_large", f"an item has more than {tables.PARTS_MAX} parts")
                return None
            part = self.parts[key] = Part(family, self.block + len(self.parts))
            if self.kind not in tables.CALLS:
                self.begun = True
                out.append(op.Start(0, part.block, family.kind, self.index))
        return part

    def note(self, out: list[op.Operation], code: GateCode, message: str, *, tolerated: bool = False) -> None:
        out.append(op.Note(code, "tolerated" if tolerated else "error", message, 0, self.index))

    # -- what an end says ----------------------------------------------------------------------------------------

    def whole(self, part: Part, text: str, out: list[op.Operation]) -> None:
        """The whole text of a part: taken where no piece of it came, compared where one did."""
        if part.characters == 0 and not part.done:
            if text:
                part.add(_bytes(text), len(text))
                out.append(op.Delta(0, part.block, part.family.field, text))
        elif not part.says(text):
            self.note(out, "missing_events", "the end of a block says something else than its pieces")
            if self.done and part.family.field == "text":  # the end of the item is the one to be shown
                out.append(op.Replace(0, part.block, text))

    def same_call(self, value: Json, out: list[op.Operation]) -> None:
        """Id and name of a call as its end gives them: they may come late, but never be others."""
        ident, name = text_of(value.get("call_id")), text_of(value.get("name"))
        new = (ident if self.ident is None else None, name if self.name is None else None)
        odd = not all(isinstance(value.get(field), str | None) for field in ("call_id", "name"))
        if odd or (ident or self.ident) != (new[0] or self.ident) or (name or self.name) != (new[1] or self.name):
            self.note(out, "identity_collision", "a call has another id or name at its end")
        elif any(new):
            self.ident, self.name = self.ident or ident, self.name or name
            out.append(op.Identify(0, self.block, *new))

    def end(self, value: Json, exact: str, out: list[op.Operation]) -> None:
        """The item is over, and this is the whole of it, parsed and exact."""
        self.done = True
        self.cut = not ended(value) if self.kind in tables.CALLS else value.get("status") == "incomplete"
        if self.kind in tables.CALLS:
            self._end_call(value, exact, out)
        elif self.kind == "message":
            kept = self._end_texts(value, "content", exact, out)
            self._end_parts([_with(exact, value, "content", "[]"), *kept], out)
        elif self.kind == "reasoning":
            self._end_texts(value, "summary", exact, out)
            kept = self._end_texts(value, "content", exact, out)
            rest = _with(exact, value, "content", "[]") if value.get("content") else exact
            self._end_parts([rest, *kept], out)
        else:
            kind: op.BlockKind = "server_tool_call" if self.kind == "server" else "server_tool_result"
            self.begun = True
            out.append(op.Start(0, self.block, kind, self.index, self.ident, self.name, exact))
            out.append(op.Stop(0, self.block))

    def _end_call(self, value: Json, exact: str, out: list[op.Operation]) -> None:
        self.same_call(value, out)
        family = {"function": tables.ARGUMENTS, "custom": tables.INPUT}.get(self.kind)
        if family is not None and family.text in value:
            part, text = self.part(family, 0, out), value[family.text]
            if part is not None and isinstance(text, str):
                self.whole(part, text, out)
            else:
                self.note(out, "malformed_json", "the arguments of a call are not text")
        if family is not None:
            out.append(op.Delta(0, self.block, "part", _with(exact, value, family.text, '""')))
        out.append(op.Stop(0, self.block))

    def _end_texts(self, value: Json, field: str, exact: str, out: list[op.Operation]) -> list[str]:
        """The parts of a message or of reasoning as the item's end gives them; returns those that hold no text."""
        kept: list[str] = []
        said: set[int] = set()
        for place, entry in enumerate(as_list(value.get(field))):
            inner = as_map(entry)
            family = tables.PARTS.get(word(inner))
            if family is None or family.item != self.word:
                self.note(out, "unknown_event", "a part of an item that this normaliser does not know")
                kept.append(slice_at(exact, (field, place)) or "")
                continue
            part, text = self.part(family, place, out), inner.get(family.text)
            if part is None:
                break
            said.add(part.block)
            if isinstance(text, str):
                self.whole(part, text, out)
            if family is tables.TEXT:
                self._beside(part, inner, exact, (field, place), out)
        lacking = any(part.characters and part.block not in said for part in self.parts.values())
        if lacking and self.kind == "message" and isinstance(value.get(field), list):
            self.note(out, "missing_events", "the end of a message lacks a part that came in pieces")
        return kept

    def _beside(self, part: Part, inner: Json, exact: str, path: Path, out: list[op.Operation]) -> None:
        """Annotations and log probabilities, as they came."""
        for place in range(len(as_list(inner.get("annotations")))):
            out.append(op.Delta(0, part.block, "citation", slice_at(exact, (*path, "annotations", place)) or ""))
        if inner.get("logprobs"):
            found = slice_at(exact, (*path, "logprobs"))
            out.append(op.Delta(0, part.block, "part", f'{{"logprobs":{found}}}'))

    def _end_parts(self, beside: list[str], out: list[op.Operation]) -> None:
        """Ends the item's blocks; the first keeps what the item is beside its texts: ids, phase, encrypted content."""
        if not self.parts:
            self.part(tables.TEXT if self.kind == "message" else tables.SUMMARY, 0, out)
        out.extend(op.Delta(0, self.block, "part", exact) for exact in beside)
        for part in self.parts.values():
            part.done = True
            out.append(op.Stop(0, part.block))

    def agrees(self, value: Json, out: list[op.Operation]) -> None:
        """The final output repeats an item that has ended: what the turn is made of must be the same."""
        if word(value) != self.word:
            self.note(out, "identity_collision", "the final output has another item in this place")
            return
        if self.kind in tables.CALLS:
            same = (text_of(value.get("call_id")), text_of(value.get("name"))) == (self.ident, self.name)
            family = {"function": tables.ARGUMENTS, "custom": tables.INPUT}.get(self.kind)
            part = None if family is None else self.part(family, 0, out)
            if not same:
                self.note(out, "identity_collision", "a call has another id or name in the final output")
            elif part is not None and not part.says(str(value.get(part.family.text))):
                self.note(out, "missing_events", "the final output has other arguments than the stream")
            self.cut = self.cut or not ended(value)
        elif self.kind == "message":
            said = {
                (word(inner), place): inner.get(_field(word(inner)))
                for place, inner in enumerate(map(as_map, as_list(value.get("content"))))
            }
            said = {key: text for key, text in said.items() if text and key[0] in tables.PARTS}
            known = {key: part for key, part in self.parts.items() if part.characters}
            if said.keys() != known.keys() or not all(part.says(str(said[key])) for key, part in known.items()):
                self.note(out, "missing_events", "the final output has another text than the stream")


def _with(exact: str, value: Json, field: str, text: str) -> str:
    """The exact text of an item with another value in one field."""
    found = again(exact, value, {**value, field: orjson.Fragment(text)}) if field in value else exact
    return replaced(exact, (field,), text) if found is None else found


def _field(word: str) -> str:
    """The field of a part that holds its text."""
    family = tables.PARTS.get(word)
    return "" if family is None else family.text


def ended(value: Json) -> bool:
    """Whether a call's item is whole. A program's own call stays in progress until its output is given."""
    status = value.get("status")
    if not isinstance(status, str | None):
        return False
    return status in tables.ENDED or (status == "in_progress" and word(as_map(value.get("caller"))) == "program")


def class_of(value: Json) -> tables.ItemClass | None:
    """What kind of item this is; None for a type that is not known. Some tools run at the client or at the server."""
    kind = tables.ITEMS.get(word(value))
    if word(value) == "shell_call" and word(as_map(value.get("environment"))).startswith("container"):
        return "server"
    if word(value) == "tool_search_call" and value.get("execution") == "server":
        return "server"
    return kind


def word(value: Json) -> str:
    found = value.get("type")
    return found if isinstance(found, str) else ""


def text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_map(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
