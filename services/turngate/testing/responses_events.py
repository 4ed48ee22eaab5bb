"""Writers of Responses events: what one response of the provider says, item by item, and what the gate makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from turngate.domain.stream import Assembler, Limits, Outcome, StreamEnd, compile_toolset

TOOLS = compile_toolset({"look": {"type": "object"}, "write": {"type": "object"}})
A = '{"a":1}'
Json = dict[str, object]


def created(ident: str = "resp_1") -> Json:
    """The first event."""
    return {"type": "response.created", "response": {"id": ident, "status": "in_progress"}}


def call(
    index: int = 0, ident: str = "c1", arguments: object = A, name: str = "look", pieces: Sequence[str] | None = None,
    **fields: object,
) -> list[Json]:  # fmt: skip
    """Every event of one call. fields: of its end."""
    item = {"type": "function_call", "id": f"fc_{ident}", "call_id": ident, "name": name}
    place = {"output_index": index, "item_id": f"fc_{ident}"}
    deltas = [str(arguments)[:3], str(arguments)[3:]] if pieces is None else pieces
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", **place, "delta": text} for text in deltas),
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "arguments": arguments, "status": "completed", **fields},
        },
    ]


def message(index: int = 0, text: str = "Hello.", ident: str = "m1", **fields: object) -> list[Json]:
    """Every event of a message with one part. fields: of its end."""
    place = {"output_index": index, "item_id": ident, "content_index": 0}
    part: Json = {"type": "output_text", "text": text, "annotations": []}
    item: Json = {"type": "message", "id": ident, "role": "assistant", "status": "completed", "content": [part]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text[:3]},
        {"type": "response.output_text.delta", **place, "delta": text[3:]},
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": {**item, **fields}},
    ]


def whole(index: int, item: Json, **added: object) -> list[Json]:
    """An item without pieces. added: what differs at its beginning."""
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **added}},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def end(status: str = "completed", output: Sequence[Json] = (), event: str | None = None, **fields: object) -> Json:
    """A terminal event."""
    response = {"id": "resp_1", "status": status, "output": list(output), **fields}
    return {"type": f"response.{event or status}", "response": response}


def numbered(events: Sequence[Json], first: int = 0) -> list[Json]:
    """The events with sequence numbers."""
    return [{**event, "sequence_number": number} for number, event in enumerate(events, first)]


def judge(events: Sequence[Json | str], limits: Limits | None = None) -> Outcome:
    """The outcome of a whole stream."""
    assembler = Assembler(profile="openai-responses", tools=TOOLS, limits=limits or Limits())
    assembler.feed(0, [event if isinstance(event, str) else json.dumps(event) for event in events])
    return assembler.end(StreamEnd("eof", count=len(events)))


def stream(*events: Json | list[Json], last: Json | None = None) -> list[Json]:
    """A numbered stream around these events."""
    inner = [one for event in events for one in (event if isinstance(event, list) else [event])]
    return numbered([created(), *inner, last or end()])


def done(*events: list[Json]) -> list[Json]:
    """The items as their ends give them."""
    ends = [event for inner in events for event in inner if event["type"] == "response.output_item.done"]
    return [cast("Json", event["item"]) for event in ends]


def codes(outcome: Outcome, severity: str = "error") -> list[str]:
    """Each code once, sorted."""
    return sorted({finding.code for finding in outcome.findings if finding.severity == severity})


def ran(outcome: Outcome) -> list[tuple[str | None, str | None, str | None]]:
    """Id, name and exact arguments of the calls that may run."""
    return [(c.call_id, c.name, c.arguments_raw) for c in outcome.calls]


def refusal(index: int = 0) -> list[Json]:
    """Every event of a message that refuses."""
    place = {"output_index": index, "item_id": "m1", "content_index": 0}
    part = {"type": "refusal", "refusal": "No."}
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [part]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {"type": "refusal", "refusal": ""}},
        {"type": "response.refusal.delta", **place, "delta": "No"},
        {"type": "response.refusal.delta", **place, "delta": "."},
        {"type": "response.refusal.done", **place, "refusal": "No."},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def reasoning(summaries: Sequence[str] = (), raws: Sequence[str] = (), **fields: object) -> list[Json]:
    """Every event of a reasoning item. summaries, raws: its texts. fields: of its end."""
    item: Json = {"type": "reasoning", "id": "rs1", "summary": [], "content": []}
    events: list[Json] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    for n, text in enumerate(summaries):
        place: Json = {"output_index": 0, "summary_index": n}
        part: Json = {"type": "summary_text", "text": text}
        events += [
            {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}},
            {"type": "response.reasoning_summary_text.delta", **place, "delta": text[:2]},
            {"type": "response.reasoning_summary_text.delta", **place, "delta": text[2:]},
            {"type": "response.reasoning_summary_text.done", **place, "text": text},
            {"type": "response.reasoning_summary_part.done", **place, "part": part},
        ]
    for n, text in enumerate(raws):
        place = {"output_index": 0, "content_index": n}
        events += [
            {"type": "response.reasoning_text.delta", **place, "delta": text},
            {"type": "response.reasoning_text.done", **place, "text": text},
        ]
    done = {
        **item,
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
        "content": [{"type": "reasoning_text", "text": text} for text in raws],
        **fields,
    }
    return [*events, {"type": "response.output_item.done", "output_index": 0, "item": done}]
