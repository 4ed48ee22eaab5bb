"""Properties over random conversations: what is built is valid, bytes are deterministic, results follow their calls."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.domain.adapters.registry import build_manifest
from turngate.domain.sequence import check_sequence
from turngate.schemas.codec import decode, encode
from turngate.schemas.digests import EMPTY_HISTORY, history_digest, sha256_hex
from turngate.schemas.sequence import MessageSequence, sequence_digest

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
CALL_ID = st.one_of(st.sampled_from(["c1", "c2", "functions.Bash:0", "x" * 80, "é"]), TEXT)
STATUS = st.sampled_from(["success", "error", "cancelled"])
ARGUMENTS = st.dictionaries(
    TEXT, st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT), max_size=3
)
ROUND = st.tuples(
    st.lists(TEXT, min_size=1, max_size=2),
    st.lists(
        st.tuples(CALL_ID, ARGUMENTS, STATUS, st.text("ab ", max_size=4)), max_size=3, unique_by=lambda call: call[0]
    ),
    TEXT,
)
ROUNDS = st.lists(ROUND, min_size=1, max_size=4)
ADAPTERS = pytest.mark.parametrize("name", ["openai-chat", "openai-compat", "anthropic"])


def converse(one: Any, rounds: Any) -> Any:
    """Rounds of user texts and an assistant turn, its calls settled; the last word is the user's."""
    for texts, calls, answer in rounds:
        one.say(*texts)
        if calls:
            one.answer(one.text(answer), *(one.call(call, raw=json.dumps(given)) for call, given, _, _ in calls))
            one.settle(*((status, text) for _, _, status, text in calls))
        one.answer(one.text(answer))
    one.say("next")
    return one


@ADAPTERS
@given(rounds=ROUNDS)
@settings(max_examples=40, deadline=None)
def test_the_same_turns_give_the_same_bytes_and_no_findings(talk: Any, name: str, rounds: Any) -> None:
    one = converse(talk(name), rounds)
    sequence = one.sequence()
    assert check_sequence(sequence) == ()
    assert one.adapter.admission(sequence, one.toolset) == ()
    again = talk(name).replace(one.turns)
    assert encode(again.sequence()) == encode(sequence)
    assert decode(MessageSequence, encode(sequence)) == sequence
    assert again.body() == one.body()
    plain = json.loads(one.body())
    assert plain["stream"] is True


@given(rounds=ROUNDS)
@settings(max_examples=40, deadline=None)
def test_openai_results_directly_follow_their_calls_in_order(talk: Any, rounds: Any) -> None:
    messages = json.loads(converse(talk("openai-chat"), rounds).body())["messages"]
    for index, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls", ())]
        following = messages[index + 1 : index + 1 + len(ids)]
        assert [one.get("tool_call_id") for one in following] == ids
        assert all(len(call_id) <= 64 for call_id in ids)
        assert len(set(ids)) == len(ids)
        if message["role"] == "tool":
            assert messages[index - 1]["role"] in ("tool", "assistant")


@given(rounds=ROUNDS)
@settings(max_examples=40, deadline=None)
def test_anthropic_results_open_the_next_message_in_order(talk: Any, rounds: Any) -> None:
    messages = json.loads(converse(talk("anthropic"), rounds).body())["messages"]
    assert all(before["role"] != after["role"] for before, after in pairwise(messages))
    seen: list[str] = []
    for index, message in enumerate(messages):
        ids = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
        seen += ids
        if ids:
            head = messages[index + 1]["content"][: len(ids)]
            assert [part.get("tool_use_id") for part in head] == ids
    assert len(set(seen)) == len(seen)


@given(rounds=ROUNDS)
@settings(max_examples=40, deadline=None)
def test_digests_chain_and_bind(talk: Any, rounds: Any) -> None:
    one = converse(talk(), rounds)
    running = EMPTY_HISTORY
    for turn in one.turns:
        running = history_digest(running, [block.digest for block in turn.blocks])
        assert turn.history_digest == running
    sequence = one.sequence()
    assert sequence.history_digest == running
    assert sequence.sequence_digest == sequence_digest(sequence)
    other = talk().replace(one.turns)
    other.options = other.options.model_copy(update={"max_output_tokens": 255})
    assert other.sequence().sequence_digest != sequence.sequence_digest


@given(rounds=ROUNDS)
@settings(max_examples=30, deadline=None)
def test_a_longer_conversation_keeps_the_wire_ids_of_a_shorter(talk: Any, rounds: Any) -> None:
    one = converse(talk("anthropic"), rounds)
    before = json.loads(one.body())["messages"]
    one.answer(one.call("c1"))
    one.settle(("success", "ok"))
    assert json.loads(one.body())["messages"][: len(before)] == before


@ADAPTERS
def test_the_manifest_names_the_bytes(talk: Any, name: str) -> None:
    one = talk(name).golden()
    sequence = one.sequence()
    rendered = one.adapter.render(sequence, one.toolset)
    first, second = (
        build_manifest(sequence, rendered, one.adapter, operation_id="op", provider="p", created_at_ms=at)
        for at in (1, 2)
    )
    assert first.manifest_digest == second.manifest_digest
    assert first.request_bytes == len(rendered.body)
    assert sha256_hex(rendered.body) != first.request_digest
