"""Pinned digests: a change of any of them changes the protocol and breaks every stored receipt."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.schemas.blocks import Block, BlockContent, ToolEdge, content_digest
from turngate.schemas.digests import (
    EMPTY_HISTORY,
    history_digest,
    idempotency_key,
    operation_id,
    parts_digest,
    request_digest,
    text_digest,
)
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.sequence import MessageSequence, sequence_digest
from turngate.schemas.tools import ToolDeclaration, toolset_digest
from turngate.schemas.turn import Turn, turn_digest

CONTENT = BlockContent(text="What is the weather in Zürich?")
BLOCK = Block(
    id="u-1-0", role="user", kind="text", turn=1, order=0, trust="user",
    digest=content_digest("text", CONTENT), content=CONTENT,
)  # fmt: skip
EDGE = ToolEdge(call_id="call_1", tool="get_weather", schema_digest="1" * 64, arguments_digest="2" * 64, generation=1)
SEQUENCE = MessageSequence(
    tenant="acme", conversation="c-1", conversation_revision=1, blocks=(BLOCK,), tool_edges=(EDGE,),
    adapter="openai-chat@1", adapter_digest="3" * 64, model_revision="gpt-x", max_output_tokens=1000,
    policy_digest="4" * 64, history_digest="5" * 64, sequence_digest="0" * 64,
)  # fmt: skip
MANIFEST = DispatchManifest(
    operation_id="op-1", tenant="acme", conversation="c-1", conversation_revision=1, sequence_digest="6" * 64,
    adapter="openai-chat@1", adapter_digest="3" * 64, normaliser="openai@1", profile="openai",
    provider="openai", model="gpt-x", policy_digest="4" * 64, path="/v1/chat/completions",
    request_digest="7" * 64, request_bytes=123, token_count=45, max_output_tokens=1000,
    manifest_digest="0" * 64, created_at_ms=1_700_000_000_000,
)  # fmt: skip
TURN = Turn(
    tenant="acme", conversation="c-1", revision=1, kind="input", blocks=(BLOCK,), cause_id="r-1",
    history_digest="5" * 64,
)  # fmt: skip

GOLDEN: dict[str, str] = {
    "operation_id": "op-8c59c7e99b6301f36bac34ab44cbe07e955aced9",
    "idempotency_key": "425d901aa7b385f563057aaf4ad65feefdb4de62",
    "history_digest": "8f41c5ea1abe681d4e04457dcda55853385bd0081da2b1d366d22fbfe4cb03d3",
    "request_digest": "a798f5c516fc4ab43ffa717d3ec29f74a351535e96fd7ad6c8ad4e8d9e6c3e64",
    "content_digest": "b15b8420c091d6dcbabb0fb43d51df53b6fa3c4deb882bb3a5bba6b1032d19de",
    "sequence_digest": "0408507db7dec3f1998e29a979b1861a52d87b3aeacabd5deced620043a69b72",
    "manifest_digest": "84ff7c85332a8bfe261d78951a6a67093f2cee83286f6184b04c8ffa067cb5a4",
    "turn_digest": "3a93dfe35d36a4dff02c0190cf9618c8792e86c36e77af6eb2c6048ae26ad5be",
    "toolset_digest": "66dd415973ac9b9597a0f6d56b0fbad11ff8cc3722ce3fc3123d8b536dcb3e31",
}


def test_golden_digests() -> None:
    assert {
        "operation_id": operation_id("acme", "c-1", 7, "req-1"),
        "idempotency_key": idempotency_key("op-1", 2),
        "history_digest": history_digest(EMPTY_HISTORY, ["a" * 64, "b" * 64]),
        "request_digest": request_digest(
            "post", "/v1/messages", b"{}", {"Anthropic-Version": "2023-06-01", "X-Api-Key": "no"}
        ),
        "content_digest": BLOCK.digest,
        "sequence_digest": sequence_digest(SEQUENCE),
        "manifest_digest": manifest_digest(MANIFEST),
        "turn_digest": turn_digest(TURN),
        "toolset_digest": toolset_digest(
            "acme", (ToolDeclaration(name="get_weather", input_schema="{}", side_effects="read"),)
        ),
    } == GOLDEN


def test_the_digests_are_what_the_protocol_says_they_are() -> None:
    """Computed by hand from the definitions, without the code under test."""
    plain = hashlib.sha256(b'["acme","c-1",7,"req-1"]').hexdigest()
    assert operation_id("acme", "c-1", 7, "req-1") == f"op-{plain[:40]}"
    assert idempotency_key("op-1", 2) == hashlib.sha256(b'["op-1",2]').hexdigest()[:40]
    first = hashlib.sha256(("0" * 64 + "a" * 64).encode()).hexdigest()
    second = hashlib.sha256((first + "b" * 64).encode()).hexdigest()
    assert history_digest(EMPTY_HISTORY, ["a" * 64, "b" * 64]) == second
    body = hashlib.sha256(b"{}").hexdigest()
    request = f'{{"bodySha256":"{body}","headers":{{"openai-beta":"x"}},"method":"POST","path":"/v1?a=1"}}'
    assert (
        request_digest("POST", "/v1?a=1", b"{}", {"OpenAI-Beta": "x", "Date": "today", "Idempotency-Key": "k"})
        == hashlib.sha256(request.encode()).hexdigest()
    )
    assert text_digest("Zürich") == hashlib.sha256("Zürich".encode()).hexdigest()


@given(st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=6), st.integers(0, 6))
def test_a_history_can_be_digested_turn_by_turn(digests: list[str], cut: int) -> None:
    begun = history_digest(EMPTY_HISTORY, digests[:cut])
    assert history_digest(begun, digests[cut:]) == history_digest(EMPTY_HISTORY, digests)


@given(st.lists(st.text(max_size=5) | st.integers(0, 99), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_parts_are_digested_unambiguously(left: list[str | int], right: list[str]) -> None:
    assert (parts_digest(*left) == parts_digest(*right)) == (left == right)


@pytest.mark.parametrize("field", [name for name in DispatchManifest.model_fields if name != "schema_"])
def test_the_manifest_digest_covers_all_but_itself_and_the_time(field: str) -> None:
    value = getattr(MANIFEST, field)
    other = value + 1 if isinstance(value, int) else f"{value}x"
    changed = manifest_digest(MANIFEST.model_copy(update={field: other}))
    assert (changed == manifest_digest(MANIFEST)) == (field in {"manifest_digest", "created_at_ms"})


@pytest.mark.parametrize("field", [name for name in MessageSequence.model_fields if name != "schema_"])
def test_the_sequence_digest_covers_the_blocks_through_the_history_alone(field: str) -> None:
    value = getattr(SEQUENCE, field)
    others: dict[type, object] = {str: f"{value}x", int: 2, tuple: ()}
    other = others.get(type(value), "x")
    changed = SEQUENCE.model_copy(update={field: other})
    if field == "tool_choice":
        changed = SEQUENCE.model_copy(update={field: SEQUENCE.tool_choice.model_copy(update={"mode": "none"})})
    same = sequence_digest(changed) == sequence_digest(SEQUENCE)
    assert same == (field in {"blocks", "sequence_digest"})


def test_a_turn_digest_does_not_depend_on_the_receipt_and_does_on_the_content() -> None:
    other = BLOCK.model_copy(update={"content": BlockContent(text="another")})
    assert turn_digest(TURN.model_copy(update={"blocks": (other,)})) != turn_digest(TURN)
