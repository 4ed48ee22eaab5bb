"""The operation's transition table, DESIGN §6. A miss is the illegal transition; the Lua scripts are tested against it.

PREPARED -> DISPATCHING -> SENT -> STREAMING -> COMMITTED
                any of the three -> UNKNOWN -> DISPATCHING (same generation, next relay) -> STREAMING
                                            -> COMMITTED | TERMINATED -> DISPATCHING (next generation) | FAILED
before COMMITTED -> CANCELLED; its attempt still goes on until there is evidence, then FAILED

An outcome with evidence in hand passes UNKNOWN in the same script, so the table has it in one step. A first event that
is read once nobody holds the lease any more leaves an attempt UNKNOWN: it is recovery's until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from turngate.schemas.errors import Refused


class State(StrEnum):
    """States of an operation."""

    PREPARED = "PREPARED"
    DISPATCHING = "DISPATCHING"
    SENT = "SENT"
    STREAMING = "STREAMING"
    COMMITTED = "COMMITTED"
    UNKNOWN = "UNKNOWN"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Step(StrEnum):
    """What moves an operation; each is one Lua script."""

    ACCEPT = "accept"
    """The send door's first step: a generation, or the next relay of one."""
    RENEW = "renew"
    """The owner's lease renewal notes that the attempt was sent."""
    BIND = "bind"
    """The first event binds the provider's handle."""
    COMMIT = "commit"
    LOSE = "lose"
    """No terminal and no evidence."""
    TERMINATE = "terminate"
    """Evidence; another generation follows."""
    FAIL = "fail"
    """Evidence; no generation follows."""
    CANCEL = "cancel"


S = State
TRANSITIONS: Mapping[State, Mapping[Step, State]] = {
    S.PREPARED: {Step.ACCEPT: S.DISPATCHING, Step.CANCEL: S.FAILED},
    S.DISPATCHING: {
        Step.ACCEPT: S.DISPATCHING, Step.RENEW: S.SENT, Step.BIND: S.STREAMING, Step.COMMIT: S.COMMITTED,
        Step.LOSE: S.UNKNOWN, Step.TERMINATE: S.TERMINATED, Step.FAIL: S.FAILED, Step.CANCEL: S.CANCELLED,
    },
    S.SENT: {
        Step.ACCEPT: S.DISPATCHING, Step.RENEW: S.SENT, Step.BIND: S.STREAMING, Step.COMMIT: S.COMMITTED,
        Step.LOSE: S.UNKNOWN, Step.TERMINATE: S.TERMINATED, Step.FAIL: S.FAILED, Step.CANCEL: S.CANCELLED,
    },
    S.STREAMING: {
        Step.ACCEPT: S.DISPATCHING, Step.RENEW: S.STREAMING, Step.BIND: S.STREAMING, Step.COMMIT: S.COMMITTED,
        Step.LOSE: S.UNKNOWN, Step.TERMINATE: S.TERMINATED, Step.FAIL: S.FAILED, Step.CANCEL: S.CANCELLED,
    },
    S.UNKNOWN: {
        Step.ACCEPT: S.DISPATCHING, Step.RENEW: S.UNKNOWN, Step.BIND: S.UNKNOWN, Step.COMMIT: S.COMMITTED,
        Step.LOSE: S.UNKNOWN, Step.TERMINATE: S.TERMINATED, Step.FAIL: S.FAILED, Step.CANCEL: S.CANCELLED,
    },
    S.TERMINATED: {Step.ACCEPT: S.DISPATCHING, Step.FAIL: S.FAILED, Step.CANCEL: S.FAILED},
    S.CANCELLED: {
        Step.BIND: S.CANCELLED, Step.LOSE: S.CANCELLED, Step.FAIL: S.FAILED, Step.CANCEL: S.CANCELLED,
    },
    S.COMMITTED: {},
    S.FAILED: {},
}  # fmt: skip


def next_state(state: State, step: Step) -> State:
    """The state after a step. Raises Refused (code `illegal_transition`) where the table has none."""
    after = TRANSITIONS[state].get(step)
    if after is None:
        raise Refused(f"an operation in {state} cannot {step}", code="illegal_transition")
    return after
