"""The reading of one Responses stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from turngate.domain.adapters.openai_chat.normaliser_tables import is_tool_like
from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.domain.adapters.openai_responses.items import Item, Part, as_list, as_map, class_of, text_of, word
from turngate.domain.adapters.openai_responses.normaliser_tables import Family
from turngate.domain.adapters.openai_responses.numbering import Json, Numbering, delta_seed
from turngate.domain.stream import operations as op
from turngate.domain.stream.rawjson import again, slice_at


class ResponsesNormaliser:
    """The profile `openai-responses`."""

    __slots__ = ("_begun", "_created", "_handle", "_ids", "_items", "_numbers", "_over")

    def __init__(self) -> None:
        self._numbers = Numbering()
        self._handle: str | None = None
        self._begun = False
        self._created = False
        self._over = False
        self._items: dict[int, Item] = {}
        self._ids: dict[str, int | None] = {}  # None: an id of several items tells nothing

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        event = as_map(value)
        for due, text in self._numbers.take(event, raw, out):
            self._read(due, text, out)

    def _read(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        name = word(event)
        handler = HANDLERS.get(name)
        if handler is None:
            self._unknown(event, name, out)
            return
        if name.startswith("response.") and name not in tables.TERMINALS and name not in tables.IGNORED:
            if self._over:
                out.append(op.Note("delta_after_terminal", "error", "an event of the response after its terminal"))
                return
            if not self._begun and self._numbers.due is None and name not in tables.OPENINGS:
                out.append(op.Note("missing_events", "error", "the stream does not begin with its response"))
            self._begun = True
        handler(self, event, raw, out)

    # -- the response ------------------------------------------------------------------------------------------

    def opening(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        if word(event) == "response.created":
            if self._created or self._items:
                out.append(op.Note("identity_collision", "error", "a second response begins"))
                return
            self._created = True
        self._bind(as_map(event.get("response")), out)

    def _bind(self, response: Json, out: list[op.Operation]) -> None:
        """One gateway changes even the response's id from event to event. Numbers tell that it is one stream."""
        ident = text_of(response.get("id"))
        if ident is None or ident == self._handle:
            return
        if self._handle is None:
            self._handle = ident
            out.append(op.Handle(ident))
        elif self._numbers.due is not None:
            text = "the response id changes, and the numbers go on"
            out.append(op.Note("identity_collision", "tolerated", text))
        else:
            out.append(op.Note("identity_collision", "error", "the response id changes inside the stream"))

    def terminal(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        response = as_map(event.get("response"))
        self._bind(response, out)
        usage = response.get("usage")
        if isinstance(usage, dict):
            out.append(op.Usage(cast("Json", usage), raw, ("response", "usage")))
        value, stop = self._stop(word(event), response)
        if self._over:
            pass  # the table of the turn names the second terminal
        elif stop != "error":
            self._final_output(as_list(response.get("output")), raw, out)
            self._unended(stop, out)
        self._over = True
        out.append(op.TurnStop(0, value, stop))
        if stop == "error":
            out.append(_failure(as_map(response.get("error")), value))

    def _stop(self, name: str, response: Json) -> tuple[str, op.StopClass]:
        """The provider's word and its class. There is no word for tool calls: the items tell."""
        status, details = response.get("status"), as_map(response.get("incomplete_details"))
        value = status if isinstance(status, str) else name.removeprefix("response.")
        if value in ("failed", "cancelled") or response.get("error") or name == "response.failed":
            return value, "error"
        if not isinstance(status, str) or status not in tables.TERMINALS[name]:
            return value, "unknown"
        if status == "incomplete":
            reason = text_of(details.get("reason"))
            return f"incomplete/{reason}" if reason else value, tables.INCOMPLETE.get(reason, "unknown")
        if details:
            return value, "unknown"
        if any(item.word == tables.APPROVAL for item in self._items.values()):
            return value, "paused"
        calls = any(item.kind in tables.CALLS for item in self._items.values())
        return value, "tool_calls" if calls else "complete"

    def error(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        """Flat as documented, or nested as recorded; `response.failed` may follow."""
        error = as_map(event.get("error"))
        out.append(_failure(error or {key: value for key, value in event.items() if key != "type"}, "error"))

    def _unknown(self, event: Json, name: str, out: list[op.Operation]) -> None:
        """Also what is no event of a stream: a bare error, or a response that came as one object."""
        if not name and event.get("error"):
            out.append(_failure(as_map(event["error"]), "error"))
            return
        if not name and event.get("object") == "response":
            if event.get("status") in ("failed", "cancelled"):
                out.append(_failure(as_map(event.get("error")), str(event["status"])))
                return
            out.append(op.Note("missing_events", "error", "the response came as one object, and no event brought it"))
        out.append(op.Note("unknown_event", "error", "an event type that this normaliser does not know"))
        if is_tool_like(name) and name.endswith((".delta", ".done", ".added")):
            out.append(op.Note("missing_slot", "error", "what may be a part of a call belongs to no slot"))

    # -- the final output ----------------------------------------------------------------------------------------

    def _final_output(self, output: list[object], raw: str, out: list[op.Operation]) -> None:
        """The terminal repeats the whole output; some servers leave it empty. It must be what was streamed."""
        if not output:
            return
        known = sorted(self._items)
        places = known if len(known) == len(output) else range(len(output))
        for place, (index, entry) in enumerate(zip(places, output, strict=True)):
            value, item = as_map(entry), self._items.get(index)
            if item is None:
                self._unstreamed(index, value, raw, place, out)
            elif item.done:
                item.agrees(value, out)
            elif item.kind not in tables.CALLS and word(value) == item.word:
                item.note(out, "missing_terminal", "an item ends with the response that repeats it", tolerated=True)
                item.end(value, slice_at(raw, ("response", "output", place)) or "{}", out)
        for index in known:
            item = self._items[index]
            if index not in places and (item.kind in tables.CALLS or item.kind == "message"):
                item.note(out, "missing_events", "the final output lacks an item of the stream")

    def _unstreamed(self, index: int, value: Json, raw: str, place: int, out: list[op.Operation]) -> None:
        """What no event brought: an item that the provider only gets back is taken, all else was lost."""
        kind = class_of(value)
        if kind not in ("reasoning", "server", "result"):
            text = "the final output holds an item that no event brought"
            out.append(op.Note("missing_events", "error", text, 0, index))
            return
        item = self._open(index, value, out)
        if item is not None:
            item.note(out, "missing_slot", "an item comes with the response's end alone", tolerated=True)
            item.end(value, slice_at(raw, ("response", "output", place)) or "{}", out)

    def _unended(self, stop: op.StopClass, out: list[op.Operation]) -> None:
        for item in self._items.values():
            if not item.done and not item.begun:
                item.note(out, "missing_terminal", "the item was never ended")
            if item.cut and item.kind in (*tables.CALLS, "message") and stop not in ("truncated", "filtered"):
                item.note(out, "missing_terminal", "the item ended incomplete, and the response did not")

    # -- items -------------------------------------------------------------------------------------------------

    @staticmethod
    def _index(event: Json) -> int | None:
        index = event.get("output_index")
        if type(index) is int and 0 <= index <= tables.OUTPUT_INDEX_MAX:
            return index
        return None

    def _place(self, event: Json, out: list[op.Operation]) -> int | None:
        """Which item an event belongs to: `output_index` decides, an `item_id` that is known may not contradict."""
        index, ident = self._index(event), event.get("item_id")
        known = self._ids.get(ident) if isinstance(ident, str) else None
        if index is None and known is not None and event.get("output_index") is None:
            out.append(op.Note("missing_slot", "tolerated", "the item id stands for the output index", 0, known))
            return known
        if index is None:
            out.append(op.Note("missing_slot", "error", "an event of an item without its output index"))
        elif known is not None and known != index:
            out.append(op.Note("identity_collision", "error", "output index and item id name two items", 0, index))
            return None
        return index

    def _open(self, index: int, value: Json, out: list[op.Operation]) -> Item | None:
        kind = class_of(value)
        if len(self._items) >= tables.ITEMS_MAX:
            out.append(op.Note("too_large", "error", f"more than {tables.ITEMS_MAX} items"))
            return None
        item = self._items[index] = Item(index, word(value), kind or ("client" if _is_call(word(value)) else "result"))
        if kind is None:
            item.note(out, "unknown_event", "an item type that this normaliser does not know")
        if value.get("role", "assistant") != "assistant":
            item.note(out, "unknown_event", "a message of another role than assistant")
        ident = text_of(value.get("id"))
        if ident is not None:
            self._ids[ident] = index if ident not in self._ids else None
        item.begin(value, out)
        return item

    def added(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        index = self._index(event)
        if index is None:
            out.append(op.Note("missing_slot", "error", "an item without an output index"))
        elif index in self._items:
            text = "an item begins in the place of another"
            out.append(op.Note("identity_collision", "error", text, 0, index))
        else:
            self._open(index, as_map(event.get("item")), out)

    def item_done(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        value = as_map(event.get("item"))
        index = self._place({**event, "item_id": value.get("id")}, out)
        if index is None:
            return
        item = self._items.get(index)
        if item is None:
            item = self._open(index, value, out)
            if item is None:
                return
            item.note(out, "missing_slot", "an item comes whole, without its beginning", tolerated=True)
        if item.done:
            item.note(out, "duplicate_terminal", "an item ends twice")
        elif word(value) != item.word:
            item.note(out, "identity_collision", "an item ends as one of another type")
        else:
            exact = again(raw, event, value) or slice_at(raw, ("item",))
            item.end(value, exact or "{}", out)

    def repeated(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        """Progress of an item, and content that its end repeats."""
        index = self._place(event, out)
        item = None if index is None else self._items.get(index)
        if item is not None and item.done and word(event).endswith((".delta", ".done", ".added")):
            item.note(out, "delta_after_terminal", "an event of an item that has ended")

    # -- texts -------------------------------------------------------------------------------------------------

    def _part(self, event: Json, family: Family, out: list[op.Operation]) -> tuple[Item, Part] | None:
        """The part that an event of this family belongs to, which is still open."""
        index = self._place(event, out)
        if index is None:
            return None
        item = self._items.get(index)
        if item is None:
            out.append(op.Note("missing_slot", "error", "a part of an item that never began", 0, index))
            if family.part is None:
                return None
            item = self._open(index, {"type": family.item}, out)  # so that its text is at least seen
        if item is None:
            return None
        if item.word != family.item:
            item.note(out, "missing_slot", "a part of another kind than its item")
            return None
        place = event.get(family.place) if family.place else 0
        part = item.part(family, place if type(place) is int and place > 0 else 0, out)
        return None if part is None else (item, part)

    def delta(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        family = tables.DELTAS[word(event)]
        found = self._part(event, family, out)
        if found is None:
            return
        item, part = found
        text = event.get("delta")
        if item.done or part.done:
            item.note(out, "delta_after_terminal", "a piece of a part that has ended")
        elif not isinstance(text, str):
            item.note(out, "unknown_event", "a delta without its text")
        elif text:
            part.add(text.encode("utf-8", "surrogatepass"), len(text))
            out.append(op.Delta(0, part.block, family.field, text))

    def text_done(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        family = tables.DONES[word(event)]
        found = self._part(event, family, out)
        if found is None:
            return
        item, part = found
        self._whole(item, part, event.get(family.text), out)
        name = event.get("name") or item.name
        if family is tables.ARGUMENTS and item.name is not None and name != item.name:
            item.note(out, "identity_collision", "a call has another name at the end of its arguments")

    def part_event(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        inner = as_map(event.get("part"))
        family = tables.PARTS.get(word(inner))
        if family is None:
            out.append(op.Note("unknown_event", "error", "a part that this normaliser does not know"))
            return
        found = self._part(event, family, out)
        if found is not None and tables.PART_EVENTS[word(event)]:
            self._whole(*found, inner.get(family.text), out)

    def _whole(self, item: Item, part: Part, text: object, out: list[op.Operation]) -> None:
        if item.done:
            item.note(out, "delta_after_terminal", "an event of an item that has ended")
        elif isinstance(text, str):
            item.whole(part, text, out)
            part.done = True
        elif text is not None:
            item.note(out, "unknown_event", "the end of a part whose text is no text")

    # -- without content -----------------------------------------------------------------------------------------

    def nothing(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        """Named as carrying nothing."""

    def unkept(self, event: Json, raw: str, out: list[op.Operation]) -> None:
        out.append(op.Note("unknown_event", "error", "content that no block can hold"))

    # -- runs ----------------------------------------------------------------------------------------------------

    def continuation(self, value: object, delta: op.Delta) -> op.Continuation | None:
        """Further deltas of the same part, each with the number that is due."""
        event = as_map(value)
        name, index = word(event), event.get("output_index")
        family = tables.DELTAS.get(name)
        item = self._items.get(index) if type(index) is int else None
        if family is None or item is None or event.get("delta") != delta.text:
            return None
        field = family.place
        place = event.get(field) if field else None
        part = item.parts.get((family.part or "", place if type(place) is int else 0))
        if part is None or part.block != delta.block or (field and (type(place) is not int or place < 0)):
            return None
        numbers, ids, seed = self._numbers, self._ids, delta_seed(name, index, place)

        def more(event: Any, number: int | None) -> str | None:
            try:  # whatever has another shape is for `event` to judge
                if event["type"] != name or event["output_index"] != index or type(event["output_index"]) is not int:
                    return None
                found, text = event.get("sequence_number"), event["delta"]
                if found != number or (number is not None and type(found) is not int):
                    return None
                if numbers.waiting or part.done or item.done:
                    return None
                if not text or type(text) is not str or ids.get(event.get("item_id"), index) != index:
                    return None
                if field and (event[field] != place or type(event[field]) is not int):
                    return None
            except (KeyError, TypeError, AttributeError):
                return None
            return text

        def took(texts: list[str], whole: str) -> None:
            part.add(whole.encode(), len(whole))
            numbers.passed_deltas(texts, seed)

        return op.Continuation(more, lambda: numbers.due, took)


def _failure(error: Json, value: str) -> op.Failure:
    """An error object, classed by its own type and code words."""
    words = {str(error.get(key)).lower() for key in ("code", "type", "status") if error.get(key) is not None}
    error_class: op.ErrorClass = "retryable"
    if words & tables.AUTH_WORDS:
        error_class = "auth"
    elif words & tables.INVALID_CODES:
        error_class = "invalid_request"
    kind = text_of(error.get("type")) or text_of(error.get("code"))
    return op.Failure(kind or value, error_class)


def _is_call(name: str) -> bool:
    """Whether an unknown item may be a call: it counts as one then, so the turn does not pass."""
    return is_tool_like(name) and not name.endswith(("_output", "_result"))


HANDLERS: Mapping[str, Callable[[ResponsesNormaliser, Json, str, list[op.Operation]], None]] = {
    "response.output_item.added": ResponsesNormaliser.added,
    "response.output_item.done": ResponsesNormaliser.item_done,
    "error": ResponsesNormaliser.error,
    **dict.fromkeys(tables.DELTAS, ResponsesNormaliser.delta),
    **dict.fromkeys(tables.DONES, ResponsesNormaliser.text_done),
    **dict.fromkeys(tables.PART_EVENTS, ResponsesNormaliser.part_event),
    **dict.fromkeys(tables.OPENINGS, ResponsesNormaliser.opening),
    **dict.fromkeys(tables.TERMINALS, ResponsesNormaliser.terminal),
    **dict.fromkeys(tables.REPEATED, ResponsesNormaliser.repeated),
    **dict.fromkeys(tables.IGNORED, ResponsesNormaliser.nothing),
    **dict.fromkeys(tables.UNKEPT, ResponsesNormaliser.unkept),
}
