"""Previews: what may be shown of a turn before it is one. Revocable, and never an argument byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from turngate.domain.stream.operations import BlockKind

PreviewPhase = Literal["started", "delta", "stopped"]


class Preview(NamedTuple):
    """One step of a block's preview, choice 0 only; a run of deltas of one block is one preview.

    block_index: the block's place in the turn. text_offset: Unicode code points of the block before `text`.
    text: empty for tool calls. call_id, name: of tool calls. byte_count: argument bytes received so far.
    A tool call has no `stopped` preview: its stop follows the gate.
    """

    kind: BlockKind
    phase: PreviewPhase
    block_index: int
    text_offset: int = 0
    text: str = ""
    call_id: str | None = None
    name: str | None = None
    byte_count: int = 0


SHOWN: frozenset[BlockKind] = frozenset({"text", "thinking", "reasoning", "refusal", "tool_call"})
"""Kinds that are previewed; the others appear with the complete turn."""


def joined(previews: Iterable[Preview]) -> list[Preview]:
    """The same previews with consecutive deltas of one block as one: of several frames that are shown at once."""
    found: list[Preview] = []
    for preview in previews:
        last = found[-1] if found else None
        if (
            last is None
            or preview.phase != "delta"
            or last.phase != "delta"
            or (last.kind, last.block_index) != (preview.kind, preview.block_index)
        ):
            found.append(preview)
        elif preview.kind == "tool_call":
            found[-1] = preview
        else:
            found[-1] = last._replace(text=last.text + preview.text)
    return found
