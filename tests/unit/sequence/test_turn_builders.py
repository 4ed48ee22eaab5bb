"""Ids, digests, chain, receipts and refusals of the turn builders."""

from __future__ import annotations

from typing import Any

import pytest

from turngate.domain.sequence import (
    CommittedHistory,
    build_artifact_turn,
    build_input_turn,
    build_tool_turn,
    build_withdraw_turn,
    check_sequence,
)
from turngate.schemas.blocks import content_digest
from turngate.schemas.codec import decode, encode
from turngate.schemas.digests import EMPTY_HISTORY, history_digest
from turngate.schemas.errors import InvalidRecord, Refused
from turngate.schemas.turn import Turn, turn_digest


def test_ids_name_role_turn_and_place(talk: Any) -> None:
    one = talk().golden()
    assert [block.id for turn in one.turns for block in turn.blocks] == [
        "s-1",
        "u-1-2",
        "a-2-b1",
        "a-2-c1",
        "a-2-c2",
        "t-2-r1",
        "t-2-r2",
    ]
    assert [block.trust for turn in one.turns for block in turn.blocks][:3] == ["system", "user", "model"]


def test_every_turn_extends_the_chain_over_its_block_digests(talk: Any) -> None:
    previous = EMPTY_HISTORY
    for turn in talk().golden().turns:
        assert all(block.digest == content_digest(block.kind, block.content) for block in turn.blocks)
        previous = history_digest(previous, [block.digest for block in turn.blocks])
        assert turn.history_digest == previous


def test_the_receipt_names_the_turn_and_the_manifest(talk: Any) -> None:
    turn = talk().golden().turns[1]
    assert turn.receipt.turn_digest == turn_digest(turn)
    assert turn.receipt.adapter == "openai-chat@1"
    assert decode(Turn, encode(turn)) == turn


def test_results_stand_in_call_order_whatever_order_they_came_in(talk: Any) -> None:
    turn = talk().golden().turns[2]
    assert [block.call_id for block in turn.blocks] == ["c1", "c2"]
    assert [(edge.status, edge.result_id) for edge in turn.tool_edges] == [
        ("success", "res-2-c1"),
        ("error", "res-2-c2"),
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda results: results[:1], "missing_result"),
        (lambda results: [*results, results[0]], "duplicate_result"),
        (lambda results: [*results, results[0].model_copy(update={"call_id": "c9"})], "orphan_result"),
        (lambda results: [results[0].model_copy(update={"generation": 2}), results[1]], "result_mismatch"),
        (lambda results: [results[0].model_copy(update={"tool": "get_b"}), results[1]], "result_mismatch"),
        (lambda results: [results[0].model_copy(update={"arguments_digest": "1" * 64}), results[1]], "result_mismatch"),
    ],
)
def test_a_tool_turn_refuses_what_does_not_settle_its_calls(talk: Any, change: Any, code: str) -> None:
    one = talk().golden()
    turn = one.turns[1]
    results = change([one.result(edge, 2) for edge in turn.tool_edges])
    with pytest.raises(Refused) as caught:
        build_tool_turn(
            turn.history_digest, tenant="t", conversation="c", revision=3, assistant_turn=turn, results=results
        )
    assert caught.value.code == code


def test_a_turn_of_another_revision_is_refused(talk: Any) -> None:
    one = talk()
    with pytest.raises(Refused, match="the next revision is 1"):
        build_input_turn(one.history, one.request(), 2)


def test_two_calls_of_one_turn_never_share_an_id(talk: Any) -> None:
    one = talk()
    one.say("hi")
    with pytest.raises(Refused) as caught:
        one.answer(one.call("c1"), one.call("c1"))
    assert caught.value.code == "duplicate_call_id"


def test_a_withdrawn_input_is_not_rendered_and_stays_in_the_chain(talk: Any) -> None:
    one = talk()
    one.say("first")
    one.say("second")
    one.turns.append(build_withdraw_turn(one.history, withdraws=2, cause_id="w-1"))
    assert [block.content.text for block in one.history.blocks] == ["first"]
    assert one.turns[2].history_digest == one.turns[1].history_digest
    assert check_sequence(one.sequence()) == ()
    with pytest.raises(Refused):
        build_withdraw_turn(one.history, withdraws=2, cause_id="w-2")


def test_an_answered_input_cannot_be_withdrawn(talk: Any) -> None:
    one = talk()
    one.say("first")
    one.answer(one.text("answer"))
    with pytest.raises(Refused):
        build_withdraw_turn(one.history, withdraws=1, cause_id="w-1")


def test_an_artifact_stands_in_place_of_what_it_covers_and_system_text_stays(talk: Any) -> None:
    one = talk().golden()
    one.answer(one.text("done"))
    one.say("more")
    one.turns.append(build_artifact_turn(one.history, text="summary", replaces=(1, 4), cause_id="compact-1"))
    assert [block.id for block in one.history.blocks] == ["s-1", "u-6", "u-5"]
    assert one.history.tool_edges == ()
    assert check_sequence(one.sequence()) == ()
    assert one.turns[5].history_digest != history_digest(one.turns[4].history_digest, [one.turns[5].blocks[0].digest])


@pytest.mark.parametrize("replaces", [(0, 1), (1, 9), (3, 2), (1, 2), (3, 3)])
def test_an_artifact_never_parts_a_call_from_its_result(talk: Any, replaces: tuple[int, int]) -> None:
    with pytest.raises(Refused):
        build_artifact_turn(talk().golden().history, text="summary", replaces=replaces, cause_id="compact-1")


def test_history_refuses_gaps_and_foreign_turns(talk: Any) -> None:
    turns = talk().golden().turns
    with pytest.raises(InvalidRecord):
        CommittedHistory("t", "c", tuple(turns[1:]))
    with pytest.raises(InvalidRecord):
        CommittedHistory("t", "other", tuple(turns))
