"""What of a gate's block goes into the committed turn."""

from __future__ import annotations

import json

import pytest

from turngate.domain.stream import Assembler, Block, StreamEnd, compile_toolset
from turngate.reassembler.conclude import _assistant_block


def test_the_signature_of_a_call_is_committed_with_it() -> None:
    """Gemini refuses the next request where the signature of a call is not given back."""
    part = {"functionCall": {"name": "any", "id": "c1", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    event = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    assembler = Assembler(profile="gemini", tools=compile_toolset({"any": True}))
    assembler.feed(0, [json.dumps(event)])
    (call,) = assembler.end(StreamEnd("eof", count=1)).blocks
    kept = _assistant_block(call, {"any": "0" * 64})
    assert (kept.kind, kept.call_id, kept.tool, kept.signature) == ("tool_call", "c1", "any", "c2ln")
    assert (kept.arguments_raw, kept.schema_digest) == ('{"a": 1}', "0" * 64)


@pytest.mark.parametrize("kind", ["thinking", "text", "tool_call"])
def test_a_signature_stays_where_it_was(kind: str) -> None:
    block = Block(0, kind, "0/0", text="t", signature="s", call_id="c", name="n", arguments_raw="")  # type: ignore[arg-type]
    assert _assistant_block(block, {}).signature == "s"


def test_empty_argument_text_is_an_empty_object() -> None:
    block = Block(0, "tool_call", "0/0", call_id="c", name="n", arguments_raw="")
    assert _assistant_block(block, {}).arguments_raw == "{}"


def test_citations_and_parts_are_kept_in_order_where_the_block_has_no_data_of_its_own() -> None:
    block = Block(0, "text", "0/0", text="t", citations=('{"a":1}',), parts=('{"b":2}',))
    assert _assistant_block(block, {}).data == '[{"a":1},{"b":2}]'
    assert _assistant_block(Block(0, "text", "0/0", text="t", data="{}", parts=("1",)), {}).data == "{}"
