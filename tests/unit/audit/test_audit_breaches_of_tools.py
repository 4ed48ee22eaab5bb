"""Planted breaches around tool calls: orders of canonical turns alone, one result each, in call order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from turngate.schemas.digests import sha256_hex, text_digest
from turngate.schemas.session import SessionEvent
from turngate.schemas.tools import ToolOrder, ToolResult
from turngate.schemas.turn import Turn

OTHER = sha256_hex(b"other")

BREACHES: list[tuple[str, Callable]] = []


def breach(invariant: str):
    def keep(plant: Callable) -> Callable:
        BREACHES.append((invariant, plant))
        return plant

    return keep


# -- I2 ----------------------------------------------------------------------------------------------------------------


@breach("I2")
def order_of_an_uncommitted_turn(story):
    story.change(story.find(ToolOrder, call_id="c1"), revision=7, call_key="acme/chat-1/7/c1")


@breach("I2")
def order_of_a_call_the_turn_lacks(story):
    story.change(story.find(ToolOrder, call_id="c1"), call_id="c9", call_key="acme/chat-1/2/c9")


@breach("I2")
def order_with_other_arguments(story):
    raw = '{"q": "ONE"}'
    story.change(story.find(ToolOrder, call_id="c1"), arguments_raw=raw, arguments_digest=text_digest(raw))


@breach("I2")
def order_with_reserialised_arguments(story):
    story.change(story.find(ToolOrder, call_id="c1"), arguments_raw='{"q":"one"}')


@breach("I2")
def order_of_another_generation(story):
    story.change(story.find(ToolOrder, call_id="c1"), generation=1)


@breach("I2")
def order_under_another_schema(story):
    story.change(story.find(ToolOrder, call_id="c1"), schema_digest=OTHER)


# -- I5 ----------------------------------------------------------------------------------------------------------------


def swap_results(story, order: tuple[int, ...]) -> None:
    turn = story.rows[story.find(Turn, revision=3)][2]
    blocks = tuple(turn.blocks[i].model_copy(update={"order": at}) for at, i in enumerate(order))
    story.rewrite(3, blocks=blocks)


@breach("I5")
def results_out_of_call_order(story):
    swap_results(story, (1, 0))


@breach("I5")
def missing_result(story):
    swap_results(story, (0,))


@breach("I5")
def duplicated_result(story):
    swap_results(story, (0, 1, 1))


@breach("I5")
def result_nobody_sent(story):
    story.drop(story.find(ToolResult, result_id="r-c1"))


@breach("I5")
def result_with_other_content(story):
    story.change(story.find(ToolResult, result_id="r-c1"), content="forged")


@breach("I5")
def two_outputs_of_one_call(story):
    story.repeat(story.find(SessionEvent, type="tool_call_output", call_id="c1"), event_id="again")


@breach("I5")
def no_output_of_a_call(story):
    story.drop(story.find(SessionEvent, type="tool_call_output", call_id="c1"))


@breach("I5")
def ordered_twice(story):
    story.repeat(story.find(ToolOrder, call_id="c1"))


@breach("I5")
def repeated_at_most_once_tool(story):
    story.repeat(story.find(ToolOrder, call_id="c1"), attempt=2)


@breach("I5")
def ordered_although_denied(story):
    story.session("approval_decision", call_key="acme/chat-1/2/c1", call_id="c1", decision="denied", revision=2)


@breach("I5")
def calls_never_settled(story):
    del story.rows[story.find(Turn, revision=3) :]


@pytest.mark.parametrize(("invariant", "plant"), BREACHES, ids=[f"{i}-{p.__name__}" for i, p in BREACHES])
def test_a_planted_breach_of_tools_is_refuted(story, assert_refuted, invariant, plant):
    plant(story)
    assert_refuted(story, invariant)


def test_every_invariant_of_tools_has_a_planted_breach():
    assert {invariant for invariant, _ in BREACHES} == {"I2", "I5"}
