"""Each graph rule of a sequence, broken one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turngate.domain.sequence import check_sequence, judge_sequence
from turngate.schemas.blocks import Block, BlockContent, content_digest
from turngate.schemas.sequence import MessageSequence, sequence_digest

Change = Callable[[MessageSequence], dict[str, object]]


def sealed(sequence: MessageSequence, **fields: object) -> MessageSequence:
    """A changed sequence whose own digest is right again."""
    changed = sequence.model_copy(update=fields)
    return changed.model_copy(update={"sequence_digest": sequence_digest(changed)})


def edited(block: Block, **fields: object) -> Block:
    content = fields.pop("content", block.content)
    assert isinstance(content, BlockContent)
    changed = block.model_copy(update={**fields, "content": content})
    return changed.model_copy(update={"digest": content_digest(changed.kind, content)})


def at(sequence: MessageSequence, place: int, **fields: object) -> tuple[Block, ...]:
    blocks = list(sequence.blocks)
    blocks[place] = edited(blocks[place], **fields)
    return tuple(blocks)


def edges(sequence: MessageSequence, **fields: object) -> dict[str, object]:
    first, *rest = sequence.tool_edges
    return {"tool_edges": (first.model_copy(update=fields), *rest)}


# Blocks: 0 s-1, 1 u-1-2, 2 a-2-b1, 3 a-2-c1, 4 a-2-c2, 5 t-2-r1, 6 t-2-r2
BROKEN: list[tuple[str, Change, str]] = [
    ("no result", lambda s: {"blocks": s.blocks[:6]}, "missing_result"),
    ("result twice", lambda s: {"blocks": (*s.blocks, edited(s.blocks[5], id="t-2-r3", order=2))}, "duplicate_result"),
    ("result of nothing", lambda s: {"blocks": at(s, 5, call_id="c9")}, "orphan_result"),
    (
        "result first",
        lambda s: {"blocks": (*s.blocks[:2], s.blocks[5], *s.blocks[2:5], s.blocks[6])},
        "result_before_call",
    ),
    (
        "text between",
        lambda s: {"blocks": (*s.blocks[:5], edited(s.blocks[1], id="u-3", turn=3, order=0), *s.blocks[5:])},
        "result_not_adjacent",
    ),
    ("results swapped", lambda s: {"blocks": (*s.blocks[:5], s.blocks[6], s.blocks[5])}, "role_order"),
    ("planned", lambda s: edges(s, argument_state="planned"), "planned_call"),
    ("open arguments", lambda s: edges(s, argument_state="open"), "incomplete_arguments"),
    (
        "cut arguments",
        lambda s: {"blocks": at(s, 3, content=s.blocks[3].content.model_copy(update={"arguments_raw": '{"x": '}))},
        "incomplete_arguments",
    ),
    ("edge of another tool", lambda s: edges(s, tool="get_b"), "result_mismatch"),
    ("edge of other arguments", lambda s: edges(s, arguments_digest="0" * 64), "result_mismatch"),
    ("edge of another status", lambda s: edges(s, status="error"), "result_mismatch"),
    ("edge missing", lambda s: {"tool_edges": s.tool_edges[:1]}, "result_mismatch"),
    ("same call id", lambda s: {"blocks": at(s, 4, call_id="c1")}, "duplicate_call_id"),
    (
        "system late",
        lambda s: {"blocks": (*s.blocks[1:], edited(s.blocks[0], id="s-3", turn=3, order=9))},
        "system_not_first",
    ),
    ("system by a user", lambda s: {"blocks": at(s, 0, trust="user")}, "role_spoof"),
    ("result by a user", lambda s: {"blocks": at(s, 5, role="user")}, "role_spoof"),
    ("empty", lambda s: {"blocks": at(s, 1, content=BlockContent(text=""))}, "empty_content"),
    ("doubled block id", lambda s: {"blocks": at(s, 2, id="u-1-2")}, "role_order"),
    ("newer than the head", lambda s: {"conversation_revision": 2}, "revision_conflict"),
    ("ends with the assistant", lambda s: {"blocks": s.blocks[:3], "tool_edges": ()}, "role_order"),
    ("nothing said", lambda s: {"blocks": s.blocks[:1], "tool_edges": ()}, "empty_content"),
    (
        "content is not what its digest names",
        lambda s: {"blocks": (s.blocks[0].model_copy(update={"digest": "0" * 64}), *s.blocks[1:])},
        "result_mismatch",
    ),
]


@pytest.mark.parametrize(("change", "code"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_rule_has_its_code(talk: Any, change: Change, code: str) -> None:
    sequence = talk().golden().sequence()
    assert check_sequence(sequence) == ()
    broken = sealed(sequence, **change(sequence))
    findings = check_sequence(broken)
    assert code in {finding.code for finding in findings if finding.severity == "error"}
    assert judge_sequence(broken).verdict == "REJECTED"


def test_a_sequence_that_is_not_what_its_digest_names(talk: Any) -> None:
    sequence = talk().golden().sequence()
    forged = sequence.model_copy(update={"max_output_tokens": 1})
    assert [finding.code for finding in check_sequence(forged)] == ["revision_conflict"]


def test_calls_at_the_end_wait(talk: Any) -> None:
    one = talk()
    one.say("hi")
    one.answer(one.call("c1"), one.call("c2"))
    judged = judge_sequence(one.sequence())
    assert (judged.verdict, judged.reason) == ("WAITING", "calls_open")
    assert [finding.code for finding in judged.findings] == ["missing_result", "missing_result"]


def test_call_ids_may_repeat_across_turns(talk: Any) -> None:
    one = talk("anthropic")
    one.say("hi")
    for _ in range(2):
        one.answer(one.call("c1"))
        one.settle(("success", "ok"))
    assert check_sequence(one.sequence()) == ()


def test_private_reasoning_of_another_model_is_left_out_whole(talk: Any) -> None:
    from turngate.domain.sequence import AssistantBlock

    one = talk("anthropic")
    one.say("hi")
    one.answer(AssistantBlock("thinking", text="hm", signature="sig"), one.text("yes"))
    one.say("and?")
    assert b"sig" in one.body()
    for other in (talk("anthropic", model="m-2"), talk("openai-chat")):
        later = other.replace(one.turns)
        assert b"sig" not in later.body()
        assert later.sequence().history_digest == one.sequence().history_digest
        assert check_sequence(later.sequence()) == ()
