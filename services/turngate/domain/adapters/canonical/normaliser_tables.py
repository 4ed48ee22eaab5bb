"""The words and bounds of canonical events, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from turngate.domain.stream.operations import BlockKind, DeltaField, ErrorClass, StopClass

_KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
_STOPS: tuple[StopClass, ...] = get_args(StopClass)
_ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)

KINDS: Mapping[str, BlockKind] = {kind: kind for kind in _KINDS}
STOPS: Mapping[str, StopClass] = {stop: stop for stop in _STOPS}
ERROR_CLASSES: Mapping[str, ErrorClass] = {word: word for word in _ERROR_CLASSES}
"""The words of the block operations themselves."""

DELTAS: Mapping[str, tuple[DeltaField, frozenset[BlockKind]]] = {
    "text": ("text", frozenset({"text", "thinking", "reasoning", "refusal"})),
    "arguments": ("arguments", frozenset({"tool_call", "server_tool_call"})),
    "signature": ("signature", frozenset({"thinking", "reasoning"})),
    "citation": ("citation", frozenset({"text"})),
    "part": ("part", frozenset({"redacted_thinking", "server_tool_result", "image", "document"})),
}
"""Member of `delta` -> what it adds to, and the kinds of block it may belong to."""

CALLS: frozenset[BlockKind] = frozenset({"tool_call", "server_tool_call"})
OPAQUE: frozenset[BlockKind] = frozenset(
    {"redacted_thinking", "server_tool_call", "server_tool_result", "image", "document"}
)
"""Kinds that may begin with the provider's own block, `data`."""

IDENTITY: frozenset[str] = frozenset({"handle", "generation", "choice"})
PLACE: frozenset[str] = frozenset({"blockIndex", "deltaSeq", "kind"})

MEMBERS: Mapping[str, frozenset[str]] = {
    "start": frozenset({"id", "name", "data"}),
    "delta": frozenset(DELTAS),
    "stop": frozenset(),
    "turnStop": frozenset({"class", "reason", "blocks", "void"}),
    "error": frozenset({"type", "class"}),
}
"""Operation -> the members it may have. `usage` is the provider's own object and may hold anything."""

BLOCK_OPERATIONS: frozenset[str] = frozenset({"start", "delta", "stop"})
OPERATIONS: frozenset[str] = frozenset({*MEMBERS, "usage"})

BOUNDS: Mapping[str, tuple[int, int]] = {
    "generation": (1, 2**53 - 1),
    "choice": (0, 127),
    "blockIndex": (0, 1023),
    "deltaSeq": (0, 999_999),
    "blocks": (0, 1024),
}
"""Least and greatest value of every number."""

HANDLE_CHARACTERS_MAX = 256
WINDOW_EVENTS = 256
"""How far ahead of the next expected deltaSeq of its block an event may come."""
WINDOW_CHARACTERS = 2_000_000
"""How much may wait in all blocks together."""
