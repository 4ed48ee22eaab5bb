"""Previews: what may be shown of a turn before it is one. Revocable, and never an argument byte."""

from __future__ import annotations

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
