"""Whole turns of Anthropic Messages, as lists of events."""

from __future__ import annotations

from random import Random

from turngate.testing.streams.calls import NAMES, Json, argument_text, arguments_for, pieces, some_text

STOPS = (
    "end_turn", "stop_sequence", "tool_use", "max_tokens", "model_context_window_exceeded", "pause_turn", "compaction",
    "refusal", "mystery",
)  # fmt: skip


def start(index: int, **block: object) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: object) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text_block(index: int, random: Random) -> list[Json]:
    events = [start(index, type="text", text=random.choice(["", "", some_text(random)]))]
    events += [delta(index, "text_delta", text=some_text(random)) for _ in range(random.choice([0, 1, 2]))]
    if random.random() < 0.15:
        events.append(delta(index, "citations_delta", citation={"type": "page_location", "cited_text": "x", "n": 1.0}))
    return events


def thinking_block(index: int, random: Random) -> list[Json]:
    if random.random() < 0.2:
        return [start(index, type="redacted_thinking", data="c2VjcmV0")]
    events = [start(index, type="thinking", thinking="", signature="")]
    if random.random() < 0.7:
        events.append(delta(index, "thinking_delta", thinking="hm " + some_text(random)))
    return [*events, delta(index, "signature_delta", signature="c2ln")]


def input_deltas(index: int, text: str, random: Random) -> list[Json]:
    return [delta(index, "input_json_delta", partial_json=piece) for piece in pieces(text, random)]


def server_block(index: int, random: Random, wrong: float) -> list[Json]:
    """A tool that runs at the provider, or what came of one."""
    word = random.choice(["server_tool_use", "mcp_tool_use", "web_search_tool_result", "fallback", "compaction"])
    if word.endswith("_use"):
        text = argument_text("loose", random, wrong / 2)
        return [
            start(index, type=word, id=f"srvtoolu_{index}", name="web", input={}),
            *input_deltas(index, text, random),
        ]
    events = [start(index, type=word, tool_use_id="srvtoolu_0", content=[{"url": "u", "n": 1.0}])]
    return [*events, delta(index, "compaction_delta", content="short")] if word == "compaction" else events


def call_block(index: int, random: Random, wrong: float) -> list[Json]:
    name = random.choice(NAMES)
    ident = f"toolu_{index}" if random.random() < 0.95 else random.choice(["toolu_same", "toolu_same", "", "x" * 257])
    if random.random() < 0.1:
        return [start(index, type="tool_use", id=ident, name=name, input=arguments_for(name, random))]
    events = [start(index, type="tool_use", id=ident, name=name, input={})]
    if name in ("now", "loose") and random.random() < 0.3:
        return events + ([delta(index, "input_json_delta", partial_json="")] if random.random() < 0.5 else [])
    return events + input_deltas(index, argument_text(name, random, wrong), random)


def messages_stream(random: Random, wrong: float) -> list[object]:
    """One message. wrong: how likely each call's input is not what its tool wants."""
    kinds = random.choice(["", "t", "c", "tc", "cc", "cc", "htc", "sc", "hsrcc", "ts", "tct"])
    blocks: list[list[Json]] = []
    for index, kind in enumerate(kinds):
        if kind == "t":
            block = text_block(index, random)
        elif kind == "h":
            block = thinking_block(index, random)
        elif kind == "c":
            block = call_block(index, random, wrong)
        else:
            block = server_block(index, random, wrong)
        blocks.append([*block, {"type": "content_block_stop", "index": index}])
    events: list[object] = [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "content": [], "stop_reason": None, "usage": {"input_tokens": 3}},
        }
    ]
    events += in_order_or_woven(blocks, random)
    stop = "tool_use" if "c" in kinds else random.choice(["end_turn", "end_turn", "stop_sequence", "pause_turn"])
    if random.random() < 0.08:
        stop = random.choice(STOPS)
    details: Json = {"stop_details": {"explanation": "no"}} if stop == "refusal" else {}
    usage: Json = {"output_tokens": random.randint(1, 9)}
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, **details}, "usage": usage})
    if random.random() < 0.1:
        events.append(
            {"type": "message_delta", "delta": {"stop_reason": random.choice([stop, None])}, "usage": {"x": 1}}
        )
    events.append({"type": "message_stop"})
    for _ in range(random.choice([0, 0, 1, 2])):
        events.insert(random.randint(0, len(events)), {"type": "ping"})
    return events


def in_order_or_woven(blocks: list[list[Json]], random: Random) -> list[Json]:
    if random.random() < 0.85:
        return [event for block in blocks for event in block]
    waiting = [list(block) for block in blocks]
    out: list[Json] = []
    while waiting:
        block = random.choice(waiting)
        out.append(block.pop(0))
        if not block:
            waiting.remove(block)
    return out
