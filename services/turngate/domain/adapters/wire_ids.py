"""Call ids on the wire: the committed id where the API takes it, else a deterministic one (never a cut-off
prefix).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from turngate.schemas.blocks import Block
from turngate.schemas.digests import parts_digest


@dataclass(frozen=True, slots=True)
class IdRule:
    """legal: the whole id must match. unique: over the conversation, else within one turn."""

    legal: re.Pattern[str]
    unique: bool


def wire_ids(blocks: Iterable[Block], rule: IdRule) -> Mapping[str, str]:
    """Wire id by block id, for every call and its results.

    A call keeps its committed id where that is legal and still free; what a call gets depends only on the
    blocks before it, so it stays the same in all later requests of the conversation.
    """
    used: set[str] = set()
    turn = -1
    current: dict[str, str] = {}
    out: dict[str, str] = {}
    for block in blocks:
        if block.call_id is None:
            continue
        if block.kind != "tool_call":
            out[block.id] = current.get(block.call_id, block.call_id)
            continue
        if block.turn != turn and not rule.unique:
            used.clear()
        turn = block.turn
        legal = rule.legal.fullmatch(block.call_id) is not None and block.call_id not in used
        wire = block.call_id if legal else _mapped(turn, block.call_id, used)
        used.add(wire)
        current[block.call_id] = wire
        out[block.id] = wire
    return out


def _mapped(turn: int, original: str, used: Set[str]) -> str:
    for salt in range(len(used) + 1):
        candidate = "call_" + parts_digest("wire-id", turn, original, salt)[:24]
        if candidate not in used:
            return candidate
    raise AssertionError("more collisions than ids")
