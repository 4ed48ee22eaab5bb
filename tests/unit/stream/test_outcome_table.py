"""The outcome table has a row for whatever the gate can find."""

from __future__ import annotations

from typing import get_args

import pytest

from turngate.domain.stream import GateCode, Limits, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.gate import Counts, Gate
from turngate.domain.stream.operations import (
    Delta,
    ErrorClass,
    Failure,
    Note,
    Operation,
    ProfileFacts,
    Start,
    Stop,
    TurnStop,
)
from turngate.domain.stream.outcome import BLOCKING_ORDER, BLOCKING_ROWS, OUTCOMES
from turngate.domain.stream.slots import Slots

FACTS = ProfileFacts(
    empty_arguments="malformed", end_mark=False, blocks_close_with_turn=False, complete_with_calls="wrong"
)
TEXT: tuple[Operation, ...] = (Start(0, 0, "text", 0), Delta(0, 0, "text", "so far"), Stop(0, 0))


def judged(*operations: Operation) -> Outcome:
    slots = Slots(Limits(), blocks_close_with_turn=False)
    for operation in operations:
        slots.apply(operation)
    gate = Gate(slots, FACTS, compile_toolset({}), Limits(), forced=False, alternatives="block")
    return gate.judge(StreamEnd("eof", count=1, evidence_closed=True), Counts(1, 0, missing=False))


def test_every_code_has_a_row_and_every_row_its_place() -> None:
    assert BLOCKING_ROWS.keys() == set(get_args(GateCode))
    assert set(BLOCKING_ORDER) == set(BLOCKING_ROWS.values()) <= OUTCOMES.keys()


@pytest.mark.parametrize("last", [TurnStop(0, "broken", "error"), Note("provider_error", "error", "it said so")])
def test_an_error_without_its_class_fails_the_turn_and_may_be_tried_again(last: Operation) -> None:
    """Also beside a finding that alone would block for good."""
    for others in ((), (Note("too_large", "error", "and this"),)):
        stop = () if isinstance(last, TurnStop) else (TurnStop(0, "stop", "complete"),)
        outcome = judged(*TEXT, *others, *stop, last)
        assert (outcome.verdict, outcome.request_end, outcome.retry) == ("failed", "failed", "ladder")
        assert (outcome.blocks, outcome.previews) == ((), "retracted")
        assert "provider_error" in {finding.code for finding in outcome.findings}


@pytest.mark.parametrize(("word", "retry"), [("retryable", "ladder"), ("auth", "never"), ("invalid_request", "never")])
def test_the_class_of_an_error_decides_where_it_is_known(word: ErrorClass, retry: str) -> None:
    outcome = judged(*TEXT, TurnStop(0, "broken", "error"), Failure("broken", word))
    assert (outcome.verdict, outcome.retry) == ("failed", retry)
