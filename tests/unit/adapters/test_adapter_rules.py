"""What an adapter refuses, maps, replays and drops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.domain.adapters.registry import (
    ADAPTERS,
    AdapterError,
    RenderedRequest,
    UnknownAdapter,
    UnsupportedKind,
    adapter,
    adapter_for_api,
    build_manifest,
    manifest_matches,
)
from turngate.schemas.blocks import Block, BlockContent, content_digest
from turngate.schemas.codec import decode
from turngate.schemas.requests import ToolChoice
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest

GOLDEN = Path(__file__).parent / "golden"


def block(place: int, role: str, kind: str, turn: int = 1, call_id: str | None = None, **content: str) -> Block:
    inner = BlockContent.model_validate(content)
    return Block.model_validate(
        {
            "id": f"b-{place}",
            "role": role,
            "kind": kind,
            "turn": turn,
            "order": place,
            "trust": "model" if role == "assistant" else "user",
            "call_id": call_id,
            "digest": content_digest(kind, inner),
            "content": inner,
        }
    )


def sequence(*blocks: Block, **fields: object) -> MessageSequence:
    base = decode(MessageSequence, (GOLDEN / "media.sequence.json").read_bytes())
    return base.model_copy(update={"blocks": blocks or base.blocks, **fields})


def toolset(*names: str, schema: str = '{"type":"object"}') -> Toolset:
    tools = tuple(ToolDeclaration(name=name, input_schema=schema, side_effects="read") for name in names)
    return Toolset(tenant="t", tools=tools, toolset_digest=toolset_digest("t", tools))


def body(name: str, *blocks: Block) -> dict[str, list[dict[str, object]]]:
    plain: dict[str, list[dict[str, object]]] = json.loads(adapter(name).render(sequence(*blocks), None).body)
    return plain


USER = block(0, "user", "text", text="hi")


def test_names_and_versions() -> None:
    assert adapter("openai-chat") is adapter("openai-chat@1")
    assert adapter_for_api("anthropic").profile == "anthropic"
    assert {one.profile for one in ADAPTERS} == {one.normaliser.partition("@")[0] for one in ADAPTERS}
    for unknown in ("openai-chat@9", "none", "openai-chat@1x"):
        with pytest.raises(UnknownAdapter):
            adapter(unknown)
    with pytest.raises(UnknownAdapter):
        adapter_for_api("none")


@pytest.mark.parametrize("kind", ["server_tool_call", "server_tool_result"])
def test_an_unknown_kind_is_never_degraded(kind: str) -> None:
    known = sequence(USER, block(1, "assistant", kind, 2, data='{"type":"x"}'), block(2, "user", "text", 3, text="go"))
    for step in (adapter("openai-chat").render, adapter("openai-chat").admission):
        with pytest.raises(UnsupportedKind) as caught:
            step(known, None)
        assert (caught.value.kind, caught.value.block_id, caught.value.code) == (kind, "b-1", "unknown_kind")
    rendered = adapter("anthropic").render(known, None)
    assert b'{"type":"x"}' in rendered.body


def test_an_image_no_api_part_stands_for_is_refused() -> None:
    strange = sequence(block(0, "user", "image", data='{"type":"hologram"}'))
    for name in ("openai-chat", "anthropic"):
        with pytest.raises(UnsupportedKind):
            adapter(name).render(strange, None)


def test_signed_thinking_is_replayed_verbatim_and_nowhere_else() -> None:
    said = (
        USER,
        block(1, "assistant", "thinking", 2, text="", signature="s+/="),
        block(2, "assistant", "redacted_thinking", 2, data='{"type":"redacted_thinking",  "data":"zz"}'),
        block(3, "assistant", "reasoning", 2, text="hidden"),
        block(4, "assistant", "text", 2, text="yes"),
        block(5, "user", "text", 3, text="go"),
    )
    data = adapter("anthropic").render(sequence(*said), None).body
    assert b'{"type":"thinking","thinking":"","signature":"s+/="}' in data
    assert b'{"type":"redacted_thinking",  "data":"zz"}' in data
    assert b"hidden" not in data
    assert body("openai-chat", *said)["messages"][1] == {"role": "assistant", "content": "yes"}


def test_citations_go_back_with_their_text() -> None:
    cited = '[{"type":"char_location",  "cited_text":"a"}]'
    said = (USER, block(1, "assistant", "text", 2, text="a", data=cited), block(2, "user", "text", 3, text="go"))
    assert f'"citations":{cited}'.encode() in adapter("anthropic").render(sequence(*said), None).body
    assert body("openai-chat", *said)["messages"][1]["content"] == "a"
    foreign = (USER, block(1, "assistant", "text", 2, text="a", data='[{"type":"url_citation"}]'), said[2])
    assert body("anthropic", *foreign)["messages"][1]["content"] == [{"type": "text", "text": "a"}]


def test_blank_text_stays_beside_other_blocks_and_an_empty_turn_is_left_out() -> None:
    call = block(2, "assistant", "tool_call", 2, call_id="c", tool="x", arguments_raw="{}")
    result = block(3, "tool", "tool_result", 3, call_id="c", text="")
    blank = block(1, "assistant", "text", 2, text="\n")
    kept = body("anthropic", USER, blank, call, result)["messages"]
    assert [one["type"] for one in kept[1]["content"]] == ["text", "tool_use"]  # type: ignore[index, attr-defined]
    assert kept[2]["content"] == [{"type": "tool_result", "tool_use_id": "c"}]
    left = body("anthropic", USER, blank, block(2, "user", "text", 3, text="go"))["messages"]
    assert [one["role"] for one in left] == ["user"]


def test_a_silent_failure_says_so() -> None:
    call = block(1, "assistant", "tool_call", 2, call_id="c", tool="x", arguments_raw="")
    result = block(2, "tool", "tool_result", 3, call_id="c", text="", status="cancelled")
    openai = body("openai-chat", USER, call, result)["messages"]
    assert openai[2]["content"] == "[tool call cancelled]"
    assert openai[1]["tool_calls"][0]["function"] == {"name": "x", "arguments": "{}"}  # type: ignore[index]
    part = body("anthropic", USER, call, result)["messages"][2]["content"][0]
    assert part["is_error"] is True  # type: ignore[index]


@pytest.mark.parametrize("raw", ["{", "[]", "null"])
def test_arguments_that_are_no_object_are_not_sent_to_anthropic(raw: str) -> None:
    call = block(1, "assistant", "tool_call", 2, call_id="c", tool="x", arguments_raw=raw)
    with pytest.raises(AdapterError):
        adapter("anthropic").render(sequence(USER, call), None)


def test_argument_bytes_are_never_rewritten() -> None:
    raw = '{ "b" : 1.0, "a":12345678901234567890, "c":"\\u00e9" }'
    call = block(1, "assistant", "tool_call", 2, call_id="c", tool="x", arguments_raw=raw)
    assert f'"input":{raw}'.encode() in adapter("anthropic").render(sequence(USER, call), None).body
    sent = body("openai-chat", USER, call)["messages"][1]["tool_calls"][0]  # type: ignore[index]
    assert sent["function"]["arguments"] == raw  # type: ignore[index]


@pytest.mark.parametrize(
    ("mode", "tool", "openai", "anthropic"),
    [
        ("auto", None, None, None),
        ("none", None, "none", {"type": "none"}),
        ("required", None, "required", {"type": "any"}),
        ("forced", "x", {"type": "function", "function": {"name": "x"}}, {"type": "tool", "name": "x"}),
    ],
)
def test_tool_choice(mode: str, tool: str | None, openai: object, anthropic: object) -> None:
    tools = toolset("x")
    choice = ToolChoice.model_validate({"mode": mode, "tool": tool})
    wanted = sequence(USER, toolset_digest=tools.toolset_digest, tool_choice=choice)
    for name, expected in (("openai-chat", openai), ("anthropic", anthropic)):
        assert json.loads(adapter(name).render(wanted, tools).body).get("tool_choice") == expected


def test_the_toolset_must_be_the_named_one() -> None:
    for given, named in ((toolset("x"), None), (None, "1" * 64)):
        with pytest.raises(AdapterError) as caught:
            adapter("openai-chat").render(sequence(USER, toolset_digest=named), given)
        assert caught.value.code == "toolset_mismatch"


def test_admission_names_what_the_api_would_refuse() -> None:
    tools = toolset("x", "x", schema="[]")
    choice = ToolChoice(mode="forced", tool="y")
    wanted = sequence(USER, toolset_digest=tools.toolset_digest, tool_choice=choice)
    paths = [finding.path for finding in adapter("openai-chat").admission(wanted, tools)]
    assert paths == ["tools/0/inputSchema", "tools/1/inputSchema", "tools", "toolChoice/tool"]
    call = block(1, "assistant", "tool_call", 2, call_id="c", tool="no good", arguments_raw="{}")
    found = adapter("anthropic").admission(sequence(USER, call), None)
    assert [finding.code for finding in found] == ["invalid_tool_name"]


def test_unsigned_thinking_before_an_open_tool_turn_is_not_admitted() -> None:
    thinking = block(1, "assistant", "thinking", 2, text="hm")
    call = block(2, "assistant", "tool_call", 2, call_id="c", tool="x", arguments_raw="{}")
    result = block(3, "tool", "tool_result", 3, call_id="c", text="ok")
    found = adapter("anthropic").admission(sequence(USER, thinking, call, result), None)
    assert [finding.code for finding in found] == ["missing_signature"]


def test_a_body_beyond_the_limit_is_too_large() -> None:
    big = sequence(block(0, "user", "text", text="x" * (32 * 1024 * 1024)))
    assert [finding.code for finding in adapter("anthropic").admission(big, None)] == ["too_large"]
    assert adapter("openai-chat").admission(big, None) == ()


def test_any_other_byte_is_render_drift() -> None:
    chosen = adapter("anthropic")
    rendered = chosen.render(sequence(USER), None)
    manifest = build_manifest(sequence(USER), rendered, chosen, operation_id="o", provider="p", created_at_ms=1)
    assert manifest_matches(manifest, rendered)
    for changed in (
        RenderedRequest("POST", rendered.path, rendered.body + b" ", 1, rendered.headers),
        RenderedRequest("POST", rendered.path, rendered.body, 1, {"anthropic-version": "2026-10-21"}),
        RenderedRequest("POST", rendered.path + "?beta=true", rendered.body, 1, rendered.headers),
    ):
        assert not manifest_matches(manifest, changed)


def test_illegal_and_repeated_ids_are_mapped_for_call_and_result_alike() -> None:
    said = [USER]
    for turn in (2, 4):
        said.append(block(turn, "assistant", "tool_call", turn, call_id="f.x:0", tool="x", arguments_raw="{}"))
        said.append(block(turn + 1, "tool", "tool_result", turn + 1, call_id="f.x:0", text="ok"))
    messages = body("anthropic", *said)["messages"]
    used = [(messages[i]["content"][0]["id"], messages[i + 1]["content"][0]["tool_use_id"]) for i in (1, 3)]  # type: ignore[index]
    assert all(call == result for call, result in used)
    assert used[0] != used[1]
