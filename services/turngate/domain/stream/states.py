"""The legal life of a slot and of a choice, as data. A look-up miss is the illegal step and names its
finding.

A slot: unseen -> accumulating -> terminal -> validated, or blocked. A choice: open -> stopped -> ended.
This file does not know which provider it serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from turngate.domain.stream.findings import GateCode

SlotState = Literal["unseen", "accumulating", "terminal", "validated", "blocked"]
SlotEvent = Literal["start", "delta", "stop", "pass", "fail"]

SLOT_TRANSITIONS: Mapping[tuple[SlotState, SlotEvent], SlotState] = {
    ("unseen", "start"): "accumulating",
    ("accumulating", "delta"): "accumulating",
    ("accumulating", "stop"): "terminal",
    ("terminal", "pass"): "validated",
    ("terminal", "fail"): "blocked",
    ("accumulating", "fail"): "blocked",
    # A blocked slot absorbs whatever still arrives: its first finding stands.
    ("blocked", "start"): "blocked",
    ("blocked", "delta"): "blocked",
    ("blocked", "stop"): "blocked",
    ("blocked", "pass"): "blocked",
    ("blocked", "fail"): "blocked",
}

SLOT_MISSES: Mapping[tuple[SlotState, SlotEvent], GateCode] = {
    ("unseen", "delta"): "missing_slot",
    ("unseen", "stop"): "missing_slot",
    ("accumulating", "start"): "identity_collision",
    ("accumulating", "pass"): "missing_terminal",
    ("terminal", "start"): "identity_collision",
    ("terminal", "delta"): "delta_after_terminal",
    ("terminal", "stop"): "duplicate_terminal",
}

TurnState = Literal["open", "stopped", "ended"]
TurnEvent = Literal["content", "close", "stop", "reopen", "end"]
"""content: a start or a delta. close: the end of a block that was open. reopen: the stop was not the last."""

TURN_TRANSITIONS: Mapping[tuple[TurnState, TurnEvent], TurnState] = {
    ("open", "content"): "open",
    ("open", "close"): "open",
    ("open", "stop"): "stopped",
    ("stopped", "reopen"): "open",
    ("stopped", "end"): "ended",
    ("open", "end"): "ended",
}

TURN_MISSES: Mapping[tuple[TurnState, TurnEvent], GateCode] = {
    ("stopped", "content"): "delta_after_terminal",
    ("stopped", "close"): "delta_after_terminal",
    ("stopped", "stop"): "duplicate_terminal",
    ("open", "reopen"): "missing_terminal",
    ("ended", "reopen"): "delta_after_terminal",
    ("ended", "content"): "delta_after_terminal",
    ("ended", "close"): "delta_after_terminal",
    ("ended", "stop"): "duplicate_terminal",
    ("ended", "end"): "duplicate_terminal",
}
