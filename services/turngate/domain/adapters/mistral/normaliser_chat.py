"""Mistral chunks to block operations: Chat Completions chunks with four differences of the documented API.

Content may be a list of chunks; a whole call may come without an index, told apart by its id; the id "null" is no
id; arguments may be a JSON object instead of text. Beside these the profile is as strict as `openai`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from turngate.domain.adapters.mistral.normaliser_tables import NO_ID, OPAQUE_CHUNKS, STOPS
from turngate.domain.adapters.openai_chat.normaliser_chat import (
    CallRef,
    ChatNormaliser,
    ChoiceState,
    as_map,
    identity,
)
from turngate.domain.adapters.openai_chat.normaliser_tables import is_tool_like
from turngate.domain.stream import operations as op
from turngate.domain.stream.rawjson import slice_at


class MistralNormaliser(ChatNormaliser):
    """The profile `mistral`."""

    stops: Mapping[str, op.StopClass] = STOPS
    index_decides = False

    # -- content chunks --------------------------------------------------------------------------------------

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
        for place, item in enumerate(cast("list[object]", value)):
            where: tuple[str | int, ...] = ("choices", *path, "content", place)
            self._chunk(state, as_map(item) or {}, raw, where, out)

    def _chunk(
        self,
        state: ChoiceState,
        chunk: dict[str, object],
        raw: str,
        where: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        word, text = chunk.get("type"), chunk.get("text")
        if word == "text" and isinstance(text, str):
            if text:
                self.prose(state, "text", text, out)
        elif word == "thinking":
            self._thinking(state, chunk, raw, where, out)
        elif word == "reference":
            self._into(state, "text", "citation", slice_at(raw, where), out)
        elif isinstance(word, str) and word in OPAQUE_CHUNKS:
            self._close(state, out)
            block = state.new_block("server_tool_result")
            out.append(op.Start(state.number, block, "server_tool_result", block, data=slice_at(raw, where)))
        else:
            out.append(op.Note("unknown_event", "error", "a content chunk that this normaliser does not know"))
            if isinstance(word, str) and is_tool_like(word):
                self.refused_call(state, out)

    def _thinking(
        self,
        state: ChoiceState,
        chunk: dict[str, object],
        raw: str,
        where: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        """Thinking is a list of text and reference chunks; recorded streams say `closed` in every one of them."""
        inner = chunk.get("thinking")
        for place, item in enumerate(cast("list[object]", inner) if isinstance(inner, list) else [inner]):
            part = as_map(item) or {}
            text = item if isinstance(item, str) else part.get("text")
            if isinstance(text, str) and (part.get("type") == "text" or not part):
                if text:
                    self.prose(state, "thinking", text, out)
            elif part.get("type") == "reference":
                self._into(state, "thinking", "citation", slice_at(raw, (*where, "thinking", place)), out)
            elif item is not None:
                out.append(op.Note("unknown_event", "error", "a thinking chunk that this normaliser does not know"))
        signature = chunk.get("signature")
        if isinstance(signature, str) and signature:
            self._into(state, "thinking", "signature", signature, out)

    def _into(
        self,
        state: ChoiceState,
        kind: op.BlockKind,
        field: op.DeltaField,
        text: str | None,
        out: list[op.Operation],
    ) -> None:
        """Something that belongs to the prose of a kind without being its text."""
        if state.open_kind != kind:
            self._close(state, out)
            block = state.new_block(kind)
            out.append(op.Start(state.number, block, kind, block))
        out.append(op.Delta(state.number, state.next_block - 1, field, text or ""))

    def _close(self, state: ChoiceState, out: list[op.Operation]) -> None:
        if state.open_kind is not None and state.stop is None:
            out.append(op.Stop(state.number, state.next_block - 1))

    # -- calls -----------------------------------------------------------------------------------------------

    def call_id(self, value: object) -> str | None:
        return None if value == NO_ID else identity(value)

    def locate(
        self, state: ChoiceState, index: object, ident: str | None, name: str | None, out: list[op.Operation]
    ) -> CallRef | None:
        """Without an index the id decides, never the place in the chunk: two chunks may each hold one call."""
        if index is not None or ident is None:
            return super().locate(state, index, ident, name, out)
        for call in state.calls:
            if call.ident == ident:
                self.named_again(state, call, ident, name, out)
                return call
        return self.open_call(state, None, ident, name, out)

    def arguments(
        self,
        state: ChoiceState,
        call: CallRef,
        value: object,
        raw: str,
        where: tuple[str | int, ...],
        out: list[op.Operation],
    ) -> None:
        if isinstance(value, dict):
            out.append(op.Delta(state.number, call.block, "arguments", slice_at(raw, where) or ""))
        else:
            super().arguments(state, call, value, raw, where, out)
