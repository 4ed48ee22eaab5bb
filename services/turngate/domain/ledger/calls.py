"""A call's transition table and the rules a tool's side-effect class decides (DESIGN §8)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from turngate.schemas.errors import Refused
from turngate.schemas.tools import SideEffects, ToolDeclaration


class CallState(StrEnum):
    """States of a call."""

    PENDING = "PENDING"
    """Its approval has not been asked for yet: approvals are asked one at a time, in call order."""
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    ORDERED = "ORDERED"
    RUNNING = "RUNNING"
    SETTLED = "SETTLED"


class CallStep(StrEnum):
    """What moves a call."""

    ASK = "ask"
    ORDER = "order"
    CLAIM = "claim"
    SETTLE = "settle"


C = CallState
CALL_TRANSITIONS: Mapping[CallState, Mapping[CallStep, CallState]] = {
    C.PENDING: {CallStep.ASK: C.AWAITING_APPROVAL, CallStep.ORDER: C.ORDERED, CallStep.SETTLE: C.SETTLED},
    C.AWAITING_APPROVAL: {CallStep.ASK: C.AWAITING_APPROVAL, CallStep.ORDER: C.ORDERED, CallStep.SETTLE: C.SETTLED},
    C.ORDERED: {CallStep.ORDER: C.ORDERED, CallStep.CLAIM: C.RUNNING, CallStep.SETTLE: C.SETTLED},
    C.RUNNING: {CallStep.ORDER: C.ORDERED, CallStep.CLAIM: C.RUNNING, CallStep.SETTLE: C.SETTLED},
    C.SETTLED: {},
}

EXECUTIONS_MAX = 3
"""How often a read or idempotent tool is ordered under the same key."""

APPROVAL_BY_DEFAULT: frozenset[SideEffects] = frozenset({"at_most_once", "compensatable"})
ORDERED_AGAIN: frozenset[SideEffects] = frozenset({"read", "idempotent"})

DENIAL_TEXT = "Tool call denied by user."
CANCELLED_TEXT = "Tool call cancelled."
UNKNOWN_TEXT = "The outcome of this tool call is unknown: no result arrived before its deadline."


def next_call_state(state: CallState, step: CallStep) -> CallState:
    """The state after a step. Raises Refused (code `illegal_transition`) where the table has none."""
    after = CALL_TRANSITIONS[state].get(step)
    if after is None:
        raise Refused(f"a call in {state} cannot {step}", code="illegal_transition")
    return after


def needs_approval(tool: ToolDeclaration) -> bool:
    """Whether someone must be asked before the call is ordered."""
    if tool.approval == "default":
        return tool.side_effects in APPROVAL_BY_DEFAULT
    return tool.approval == "always"


def after_deadline(side_effects: SideEffects, executions: int) -> Literal["order_again", "settle_unknown"]:
    """What a passed deadline means: only what may be executed twice is ordered again, and not without end."""
    if side_effects in ORDERED_AGAIN and executions < EXECUTIONS_MAX:
        return "order_again"
    return "settle_unknown"
