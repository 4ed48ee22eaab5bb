"""Properties of the stream core over generated streams: what no split, loss, repeat or disorder may change."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turngate.domain.stream import Assembler, CompiledToolset, Outcome, Preview, StreamEnd, compile_toolset

TOOLS: CompiledToolset = compile_toolset({name: {"type": "object"} for name in ("alpha", "beta")})
PROFILES = ("openai", "openai-compat", "mistral", "anthropic", "gemini", "openai-responses")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.dictionaries(
    TEXT,
    st.one_of(st.integers(), TEXT, st.booleans(), st.none(), st.lists(st.integers(), max_size=3)),
    max_size=3,
)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


Plan = list[tuple[str, str, str, list[str]]]
"""(kind, id, name, pieces) per block."""


@st.composite
def plans(draw: st.DrawFn, *, calls_min: int = 0) -> Plan:
    texts = draw(st.lists(TEXT.filter(bool), max_size=2))
    arguments = draw(st.lists(VALUES, min_size=calls_min, max_size=3))
    out: Plan = [("text", "", "", draw(pieces(text))) for text in texts]
    for number, value in enumerate(arguments):
        name = draw(st.sampled_from(["alpha", "beta"]))
        ascii_only = draw(st.booleans())
        out.append(("call", f"call_{number}", name, draw(pieces(json.dumps(value, ensure_ascii=ascii_only)))))
    return out


def chat(plan: Plan) -> list[str]:
    events: list[object] = [{"role": "assistant", "content": ""}]
    number = 0
    for kind, ident, name, texts in plan:
        if kind == "text":
            events += [{"content": text} for text in texts]
            continue
        first = {
            "index": number,
            "id": ident,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        events.append({"tool_calls": [first]})
        events += [{"tool_calls": [{"index": number, "function": {"arguments": text}}]} for text in texts]
        number += 1
    finish = "tool_calls" if number else "stop"
    chunks = [{"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in events]
    chunks.append({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({"id": "r1", "choices": [], "usage": {"total_tokens": 3}})
    return [json.dumps(chunk, ensure_ascii=False) for chunk in chunks]


def messages(plan: Plan) -> list[str]:
    events: list[dict[str, object]] = [{"type": "message_start", "message": {"id": "r1", "content": [], "usage": {}}}]
    for index, (kind, ident, name, texts) in enumerate(plan):
        block: dict[str, object] = {"type": "text", "text": ""}
        word, field = "text_delta", "text"
        if kind == "call":
            block = {"type": "tool_use", "id": ident, "name": name, "input": {}}
            word, field = "input_json_delta", "partial_json"
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": {"type": word, field: t}} for t in texts]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if any(kind == "call" for kind, *_ in plan) else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}})
    events.append({"type": "message_stop"})
    return [json.dumps(event, ensure_ascii=False) for event in events]


def contents(plan: Plan) -> list[str]:
    parts: list[str] = []
    for kind, ident, name, texts in plan:
        if kind == "text":
            parts += [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        else:
            parts.append(f'{{"functionCall": {{"id": "{ident}", "name": "{name}", "args": {"".join(texts)}}}}}')
    start = '{"responseId": "r1", "candidates": [{"content": {"role": "model", "parts": ['
    events = [start + part + "]}}]}" for part in parts]
    events.append(start + ']}, "finishReason": "STOP"}]}')
    events.append('{"responseId": "r1", "usageMetadata": {"totalTokenCount": 3}}')
    return events


def responses(plan: Plan) -> list[str]:
    events: list[dict[str, object]] = [{"type": "response.created", "response": {"id": "r1", "status": "in_progress"}}]
    for index, (kind, ident, name, texts) in enumerate(plan):
        text = "".join(texts)
        item: dict[str, object] = {"type": "function_call", "call_id": ident, "name": name, "arguments": text}
        word, last, place = "function_call_arguments", {"arguments": text}, {"output_index": index}
        if kind == "text":
            item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            word, last, place = "output_text", {"text": text}, {**place, "content_index": 0}
        begun = {**item, "content": [], "arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events += [{"type": f"response.{word}.delta", **place, "delta": piece} for piece in texts]
        events.append({"type": f"response.{word}.done", **place, **last})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": {"id": "r1", "status": "completed"}})
    return [json.dumps({**event, "sequence_number": n}, ensure_ascii=False) for n, event in enumerate(events)]


WRITERS: dict[str, Callable[[Plan], list[str]]] = {
    "openai": chat,
    "openai-compat": chat,
    "mistral": chat,
    "anthropic": messages,
    "gemini": contents,
    "openai-responses": responses,
}


def judge(
    profile: str, frames: Sequence[tuple[int, Sequence[str]]], count: int | None
) -> tuple[Outcome, list[Preview]]:
    assembler = Assembler(profile=profile, tools=TOOLS)
    previews = [preview for first, events in frames for preview in assembler.feed(first, events)]
    return assembler.end(StreamEnd("eof", count=count)), previews


def same(a: Outcome, b: Outcome) -> bool:
    return all(getattr(a, f) == getattr(b, f) for f in Outcome.__slots__ if f != "duplicate_count")


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans())
def test_a_whole_stream_commits_exactly_what_was_written(profile: str, plan: Plan) -> None:
    events = WRITERS[profile](plan)
    outcome, _ = judge(profile, [(0, events)], len(events))
    assert outcome.verdict == "commit"
    wanted = [(i, n, "".join(t)) for kind, i, n, t in plan if kind == "call"]
    assert [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls] == wanted
    assert [c.arguments for c in outcome.calls] == [json.loads(raw) for _, _, raw in wanted]
    assert outcome.text == "".join("".join(t) for kind, _, _, t in plan if kind == "text")
    assert outcome.request_end == "completed"
    assert outcome.handle == "r1"


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans(calls_min=1), data=st.data())
def test_a_stream_cut_anywhere_runs_nothing(profile: str, plan: Plan, data: st.DataObject) -> None:
    events = WRITERS[profile](plan)
    terminal = len(events) - (1 if profile in ("anthropic", "openai-responses") else 2)
    cut = data.draw(st.integers(0, terminal))
    outcome, _ = judge(profile, [(0, events[:cut])], cut)
    assert outcome.verdict == "unknown"
    assert outcome.calls == ()
    assert outcome.blocks == ()
    assert outcome.request_end is None


@pytest.mark.parametrize("profile", PROFILES)
def test_arguments_cut_at_every_byte_never_run(profile: str) -> None:
    text = '{"a": {"b": [1, 2, "x\\u00e9"]}, "c": -1.5e3}'
    for cut in range(1, len(text)):
        outcome, _ = judge(profile, [(0, WRITERS[profile]([("call", "c1", "alpha", [text[:cut]])]))], None)
        assert outcome.verdict == "blocked", text[:cut]
        assert outcome.calls == ()


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans(), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_splits_repeats_and_disorder_change_nothing(profile: str, plan: Plan, seed: int) -> None:
    events = WRITERS[profile](plan)
    straight, shown = judge(profile, [(0, events)], len(events))
    rng = random.Random(seed)
    frames: list[tuple[int, Sequence[str]]] = []
    at = 0
    while at < len(events):
        size = rng.randint(1, 4)
        frames.append((at, events[at : at + size]))
        at += size
    in_order, previews = judge(profile, frames, len(events))
    assert same(straight, in_order)
    assert texts(previews) == texts(shown)
    frames += rng.sample(frames, k=rng.randint(0, len(frames)))
    rng.shuffle(frames)
    disordered, previews = judge(profile, frames, len(events))
    assert same(straight, disordered)
    assert texts(previews) == texts(shown)


def texts(previews: Sequence[Preview]) -> dict[int, str]:
    """What a reader has of each block that follows the preview rule: only what lies beyond its own offset."""
    out: dict[int, str] = {}
    for preview in previews:
        have = out.get(preview.block_index, "")
        if preview.kind != "tool_call" and preview.phase == "delta":
            assert preview.text_offset == len(have)
            out[preview.block_index] = have + preview.text
    return out


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans())
def test_the_previewed_text_of_a_block_is_its_committed_text(profile: str, plan: Plan) -> None:
    events = WRITERS[profile](plan)
    outcome, previews = judge(profile, [(n, [event]) for n, event in enumerate(events)], len(events))
    assert texts(previews) == {b.index: b.text for b in outcome.blocks if b.kind == "text" and b.text}
    shown = {p.block_index: p.byte_count for p in previews if p.kind == "tool_call"}
    for block in outcome.calls:
        assert shown[block.index] == len((block.arguments_raw or "").encode())
    assert all(p.text == "" for p in previews if p.kind == "tool_call")


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans(calls_min=1), data=st.data())
def test_a_lost_event_runs_nothing(profile: str, plan: Plan, data: st.DataObject) -> None:
    events = WRITERS[profile](plan)
    lost = data.draw(st.integers(0, len(events) - 1))
    frames = [(n, [event]) for n, event in enumerate(events) if n != lost]
    outcome, _ = judge(profile, frames, len(events))
    assert outcome.verdict in ("blocked", "unknown")
    assert "missing_events" in {f.code for f in outcome.findings}
    assert outcome.calls == ()


WIRE_NAMES = (
    "type", "index", "delta", "choices", "id", "name", "function", "arguments", "tool_calls", "error",
    "content", "content_block", "message", "usage", "finish_reason", "stop_reason", "input", "partial_json",
    "output_index", "content_index", "sequence_number", "item", "item_id", "call_id", "part", "text", "response",
    "output", "status", "summary",
)  # fmt: skip
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "text", "tool_use", "{}", "completed"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(WIRE_NAMES), inner, max_size=5),
    ),
    max_leaves=12,
)


@st.composite
def bent(draw: st.DrawFn, events: list[str]) -> list[str]:
    """A stream with some values of some events replaced by arbitrary ones."""
    out = list(events)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(out) - 1))
        value: object = json.loads(out[at])
        node = value
        while isinstance(node, (dict, list)) and node:
            keys: list[object] = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = draw(st.sampled_from(keys))
            child = node[key]  # type: ignore[index]  # key was taken from node
            if draw(st.booleans()) or not isinstance(child, (dict, list)):
                node[key] = draw(JSON)  # type: ignore[index]  # as above
                break
            node = child
        out[at] = json.dumps(value)
    return out


@pytest.mark.parametrize("profile", PROFILES)
@given(plan=plans(calls_min=1), data=st.data())
@settings(max_examples=150)
def test_bent_events_never_raise_and_never_run_a_call_nobody_wrote(
    profile: str, plan: Plan, data: st.DataObject
) -> None:
    events = data.draw(bent(WRITERS[profile](plan)))
    outcome, _ = judge(profile, [(0, events)], len(events))
    for call in outcome.calls:
        assert call.call_id
        assert call.name in ("alpha", "beta")
        assert isinstance(call.arguments, dict)


@pytest.mark.parametrize("profile", PROFILES)
@given(events=st.lists(JSON.map(json.dumps), max_size=6))
def test_arbitrary_events_never_commit_a_call(profile: str, events: list[str]) -> None:
    outcome, _ = judge(profile, [(0, events)], None)
    assert outcome.calls == ()


@given(plan=plans(calls_min=1))
def test_a_broken_call_blocks_its_good_neighbours(plan: Plan) -> None:
    events = chat([*plan, ("call", "call_bad", "alpha", ["{"])])
    outcome, _ = judge("openai", [(0, events)], len(events))
    assume(len(plan) > 0)
    assert outcome.verdict == "blocked"
    assert outcome.blocks == ()
