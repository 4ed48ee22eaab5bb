"""The tolerant profile: what other servers send is accepted where it has one reading, fragment by fragment,
and marked.

The rule behind every case: a fragment goes to a call only if no other call could own it. An id decides; an
index decides where it was never shared; a fragment with neither goes to a call only while that call is the
only one.
"""

from __future__ import annotations

from typing import cast

from turngate.domain.adapters.openai_chat.normaliser_chat import (
    CallRef,
    ChatNormaliser,
    ChoiceState,
    as_map,
    collision,
    failure,
)
from turngate.domain.adapters.openai_chat.normaliser_tables import COMPAT_STOPS, REASONING_KEYS, is_tool_like
from turngate.domain.stream import operations as op
from turngate.domain.stream.findings import Severity
from turngate.domain.stream.rawjson import slice_at


class CompatNormaliser(ChatNormaliser):
    """The profile `openai-compat`."""

    stops = COMPAT_STOPS
    legacy_label: Severity = "tolerated"
    prose_keys = ("content", *REASONING_KEYS)

    # -- around the choices ----------------------------------------------------------------------------------

    def extras(self, chunk: dict[str, object], raw: str, out: list[op.Operation]) -> None:
        vendor = as_map(chunk.get("x_groq"))
        if vendor and vendor.get("error"):
            out.append(failure(vendor["error"]))
        if vendor and chunk.get("usage") is None:
            usage = as_map(vendor.get("usage"))
            if usage:
                out.append(op.Usage(usage, raw, ("x_groq", "usage")))

    def handle_changed(self, out: list[op.Operation]) -> None:
        out.append(op.Note("identity_collision", "tolerated", "the response id differs between chunks"))

    def may_lack_choices(self, chunk: dict[str, object]) -> bool:
        return "choices" in chunk or as_map(chunk.get("usage")) is not None or "x_groq" in chunk

    def choice_number(self, choice: dict[str, object], place: int, out: list[op.Operation]) -> int | None:
        """Without any index there is one choice; an index that is no number, or a second place, is no
        reading."""
        if choice.get("index") is None and place == 0 and all(number == 0 for number in self._choices):
            out.append(op.Note("missing_slot", "tolerated", "a choice without an index is the only one"))
            return 0
        return super().choice_number(choice, place, out)

    # -- prose -----------------------------------------------------------------------------------------------

    def content(
        self,
        state: ChoiceState,
        value: object,
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        if not isinstance(value, list):
            super().content(state, value, raw, path, out)
            return
        for item in cast("list[object]", value):
            part = as_map(item) or {}
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str):
                if text:
                    self.prose(state, "text", text, out)
            elif part.get("type") == "thinking" and self._thinking(state, part.get("thinking"), out):
                continue
            else:
                out.append(op.Note("unknown_event", "error", "a content part that is not text"))

    def _thinking(self, state: ChoiceState, value: object, out: list[op.Operation]) -> bool:
        """A thinking part among the content, as text or as a list of text parts (the form of Mistral's models)."""
        parts = cast("list[object]", value) if isinstance(value, list) else [{"type": "text", "text": value}]
        maps = [as_map(part) or {} for part in parts]
        texts = [text for part in maps if part.get("type") == "text" and isinstance(text := part.get("text"), str)]
        if len(texts) != len(parts):
            return False
        out.append(op.Note("unknown_event", "tolerated", "reasoning among the content parts"))
        if whole := "".join(texts):
            self.prose(state, "reasoning", whole, out)
        return True

    def unknown_delta(
        self,
        state: ChoiceState,
        key: str,
        delta: dict[str, object],
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        value = delta[key]
        if key == "reasoning_details":
            self._details(state, delta, raw, path, out)
        elif key in REASONING_KEYS and isinstance(value, str):
            first = next(k for k in REASONING_KEYS if delta.get(k))
            if key == first:
                out.append(op.Note("unknown_event", "tolerated", "reasoning in a field of its own"))
                self.prose(state, "reasoning", value, out)
        elif is_tool_like(key):
            self.tool_like(state, out)

    def _details(
        self,
        state: ChoiceState,
        delta: dict[str, object],
        raw: str,
        path: tuple[int, str],
        out: list[op.Operation],
    ) -> None:
        """Opaque reasoning parts are kept verbatim beside the reasoning text they came with."""
        if not delta["reasoning_details"]:
            return
        text = slice_at(raw, ("choices", path[0], path[1], "reasoning_details"))
        if text is None:
            return
        if state.open_kind != "reasoning":
            if state.open_kind is not None and state.stop is None:
                out.append(op.Stop(state.number, state.next_block - 1))
            block = state.new_block("reasoning")
            out.append(op.Start(state.number, block, "reasoning", block))
        out.append(op.Delta(state.number, state.next_block - 1, "part", text))

    def legacy_call(self, state: ChoiceState, value: object, out: list[op.Operation]) -> None:
        """A `function_call` that names nothing and holds nothing is an empty field of this server, no call."""
        fields = as_map(value)
        if fields is None or any(fields.values()):
            super().legacy_call(state, value, out)

    # -- calls -----------------------------------------------------------------------------------------------

    def may_be_empty(self, state: ChoiceState, index: object) -> bool:
        """Once a call has begun, an empty fragment can belong to any of them without changing it."""
        return bool(state.calls) and (index is None or (isinstance(index, int) and index in state.by_index))

    def locate(
        self, state: ChoiceState, index: object, ident: str | None, name: str | None, out: list[op.Operation]
    ) -> CallRef | None:
        place = index if type(index) is int and index >= 0 else None
        if index is not None and place is None:
            return super().locate(state, index, ident, name, out)
        if ident is not None:
            return self._by_id(state, place, ident, name, out)
        if place is not None:
            return self._by_index(state, place, name, out)
        return self._by_being_alone(state, name, out)

    def _by_id(
        self, state: ChoiceState, index: int | None, ident: str, name: str | None, out: list[op.Operation]
    ) -> CallRef:
        known = [call for call in state.calls if call.ident == ident]
        for call in known:
            if index is None or call.number == index:
                note = op.Note("identity_collision", "tolerated", "the same identity again", state.number, call.number)
                out.append(note)
                self._identify(state, call, ident, name, out)
                return call
        holder = None if index is None else state.by_index.get(index)
        if index is None:
            out.append(
                op.Note(
                    "missing_slot",
                    "tolerated",
                    "calls without an index are told apart by id",
                    state.number,
                    None,
                )
            )
            return self.open_call(state, None, ident, name, out)
        if holder is None:
            return self.open_call(state, index, ident, name, out)
        if holder.ident is None:
            holder.ident = ident
            out.append(
                op.Note(
                    "missing_identity",
                    "tolerated",
                    "the id came after the first fragment",
                    state.number,
                    index,
                )
            )
            self._identify(state, holder, ident, name, out)
            return holder
        return self._reuse(state, index, holder, ident, name, known, out)

    def _reuse(
        self,
        state: ChoiceState,
        index: int,
        holder: CallRef,
        ident: str,
        name: str | None,
        known: list[CallRef],
        out: list[op.Operation],
    ) -> CallRef:
        """Another id on a used index: two calls only if each one is whole in fragments that carry its own
        id."""
        if name is None or holder.idless or known:
            out.append(collision(state, index, "another call id on a slot in use"))
            return holder
        state.reused.add(index)
        out.append(
            op.Note(
                "identity_collision",
                "tolerated",
                "whole calls share an index; ids tell them apart",
                state.number,
                index,
            )
        )
        call = self.open_call(state, index, ident, name, out)
        out.extend((op.Whole(state.number, holder.block), op.Whole(state.number, call.block)))
        return call

    def _by_index(self, state: ChoiceState, index: int, name: str | None, out: list[op.Operation]) -> CallRef:
        call = state.by_index.get(index)
        if call is None:
            return self.open_call(state, index, None, name, out)
        if index in state.reused:
            out.append(collision(state, index, "a fragment without an id on an index that two calls share"))
            return call
        call.idless = True
        if name is not None:
            self._identify(state, call, None, name, out)
        return call

    def _identify(
        self, state: ChoiceState, call: CallRef, ident: str | None, name: str | None, out: list[op.Operation]
    ) -> None:
        """More of a call's identity, marked where the name was still to come."""
        if name is not None and call.name is None:
            call.name = name
            text = "the name came after the first fragment"
            out.append(op.Note("missing_identity", "tolerated", text, state.number, call.number))
        out.append(op.Identify(state.number, call.block, ident, name))

    def _by_being_alone(self, state: ChoiceState, name: str | None, out: list[op.Operation]) -> CallRef | None:
        if len(state.calls) == 1 and name is None:
            call = state.calls[0]
            call.idless = True
            out.append(
                op.Note(
                    "missing_slot",
                    "tolerated",
                    "a fragment without index and id; one call is open",
                    state.number,
                    call.number,
                )
            )
            return call
        out.append(
            op.Note(
                "missing_slot",
                "error",
                "a fragment without index and id may belong to several calls",
                state.number,
                None,
            )
        )
        return None

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
            super().arguments(state, call, value, raw, where, out)
        elif value is not None:
            exact = slice_at(raw, where)
            out.append(
                op.Note(
                    "malformed_json",
                    "tolerated",
                    "arguments as JSON instead of text",
                    state.number,
                    call.number,
                )
            )
            out.append(op.Delta(state.number, call.block, "arguments", exact or ""))

    # -- finish ----------------------------------------------------------------------------------------------

    def finish_again(self, state: ChoiceState, stop: op.StopClass, out: list[op.Operation]) -> bool:
        """A repeat of the same class, or a plain stop after tool_calls, changes nothing; anything else
        contradicts."""
        if stop == state.stop or (state.stop == "tool_calls" and stop == "complete"):
            out.append(op.Note("duplicate_terminal", "tolerated", "the finish reason is repeated", state.number, None))
            return True
        return False
