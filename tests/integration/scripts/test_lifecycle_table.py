"""Every state meets every script: the arrows taken are those of the table, all of them and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from turngate.domain.dispatch.lifecycle import TRANSITIONS, State, Step, next_state
from turngate.runtime.redis.keys import OPS
from turngate.schemas.errors import Refused

if TYPE_CHECKING:
    from conftest import Bench

Run = tuple[str, dict[str, str]]

SENT: tuple[Run, ...] = (("validator/ready_v1", {}), ("dispatcher/accept_v1", {}))
LOSE: Run = ("reassembler/end_v1", {"state": "UNKNOWN", "evidence": "", "delay": "", "src": "stream-events/0@5"})
FAIL: Run = ("reassembler/end_v1", {"state": "FAILED", "delay": "", "src": "stream-events/0@6"})
PATHS: Mapping[State, Sequence[Run]] = {
    State.PREPARED: SENT[:1],
    State.DISPATCHING: SENT,
    State.SENT: (*SENT, ("dispatcher/renew_v1", {})),
    State.STREAMING: (*SENT, ("reassembler/bind_v1", {})),
    State.UNKNOWN: (*SENT, LOSE),
    State.TERMINATED: (*SENT, ("reassembler/end_v1", {})),
    State.COMMITTED: (*SENT, ("reassembler/commit_v1", {"calls": ""})),
    State.FAILED: (*SENT, FAIL),
    State.CANCELLED: (*SENT, ("ledger/cancel_v1", {})),
}
STEPS: Mapping[Step, Run] = {
    Step.ACCEPT: ("dispatcher/accept_v1", {}),
    Step.RENEW: ("dispatcher/renew_v1", {}),
    Step.BIND: ("reassembler/bind_v1", {}),
    Step.COMMIT: ("reassembler/commit_v1", {"src": "stream-events/0@20"}),
    Step.LOSE: ("reassembler/end_v1", {**LOSE[1], "src": "stream-events/0@21"}),
    Step.TERMINATE: ("reassembler/end_v1", {"src": "stream-events/0@22"}),
    Step.FAIL: ("reassembler/end_v1", {**FAIL[1], "src": "stream-events/0@23"}),
    Step.CANCEL: ("ledger/cancel_v1", {"o": "", "cg": "", "control": "ctl-20", "src": "control/0@20"}),
}
NO_SCRIPT = {(State.TERMINATED, Step.FAIL)}
"""In one with the step before it: an outcome after which no generation follows is FAILED at once."""


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("state", State)
async def test_a_script_takes_the_arrow_of_the_table_or_none(lone: Bench, state: State, step: Step) -> None:
    await lone.through(PATHS[state])
    assert await lone.field(OPS, "op-1|st") == state
    script, changes = STEPS[step]
    changes = dict(changes)
    if step is Step.ACCEPT and state is State.TERMINATED:
        changes |= {"expected": "1", "src": "sequences/0@2"}
    if state is State.CANCELLED and script == "reassembler/end_v1":
        changes |= {"cancelled": "1"}
    await lone.run(script, **changes)
    has_arrow = step in TRANSITIONS[state] and (state, step) not in NO_SCRIPT
    assert await lone.field(OPS, "op-1|st") == (next_state(state, step) if has_arrow else state)


def test_the_table_ends_where_it_should() -> None:
    assert {state for state, steps in TRANSITIONS.items() if not steps} == {State.COMMITTED, State.FAILED}
    assert {step for steps in TRANSITIONS.values() for step in steps} == set(Step)
    for state in State:
        for step in set(Step) - set(TRANSITIONS[state]):
            with pytest.raises(Refused) as refused:
                next_state(state, step)
            assert refused.value.code == "illegal_transition"
