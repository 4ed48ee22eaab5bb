"""Provider streams of any length for the benchmarks: the shapes the APIs send, from nothing but a size."""

from __future__ import annotations

import json

WORDS = ("the ", "harbour ", "lies ", "still ", "and ", "no ", "ship ", "is ", "late. ", "Rain ")
TOOLS = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "notes": {"type": "array", "items": {"type": "string"}}},
        "required": ["city"],
        "additionalProperties": False,
    }
}


def _arguments(city: str, fragments: int) -> list[str]:
    """Argument text of about `fragments` pieces of four characters each."""
    notes: list[str] = []
    while sum(map(len, notes)) + 3 * len(notes) < fragments * 4:
        notes.append(WORDS[len(notes) % len(WORDS)] * 3)
    text = json.dumps({"city": city, "notes": notes}, separators=(",", ":"))
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def chat(deltas: int) -> list[str]:
    """Chat Completions chunks: four fifths text, then two parallel calls, one after the other."""
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "system_fingerprint": "f",
    }

    def chunk(delta: dict[str, object], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return json.dumps({**base, "choices": [choice]}, separators=(",", ":"))

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": WORDS[n % len(WORDS)]}) for n in range(deltas * 4 // 5)]
    for index, city in enumerate(("Oslo", "Bergen")):
        function = {"name": "get_weather", "arguments": ""}
        events.append(
            chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]})
        )
        events += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _arguments(city, deltas // 10)
        ]
    events.append(chunk({}, "tool_calls"))
    return events


def messages(deltas: int) -> list[str]:
    """Anthropic Messages events of the same content."""

    def event(name: str, **rest: object) -> str:
        return json.dumps({"type": name, **rest}, separators=(",", ":"))

    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
    }  # fmt: skip
    events = [event("message_start", message=message)]
    events.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    for n in range(deltas * 4 // 5):
        delta = {"type": "text_delta", "text": WORDS[n % len(WORDS)]}
        events.append(event("content_block_delta", index=0, delta=delta))
    events.append(event("content_block_stop", index=0))
    for index, city in enumerate(("Oslo", "Bergen"), 1):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": "get_weather", "input": {}}
        events.append(event("content_block_start", index=index, content_block=block))
        for piece in _arguments(city, deltas // 10):
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    usage = {"output_tokens": deltas}
    events.append(event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage=usage))
    events.append(event("message_stop"))
    return events


def responses(deltas: int) -> list[str]:
    """Responses events of the same content, numbered, with padding as the API sends it."""
    events: list[str] = []

    def event(name: str, **rest: object) -> None:
        events.append(json.dumps({"type": name, **rest, "sequence_number": len(events)}, separators=(",", ":")))

    output: list[dict[str, object]] = []
    event("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})
    place: dict[str, object] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    message: dict[str, object] = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    event("response.output_item.added", output_index=0, item={**message, "status": "in_progress", "content": []})
    for n in range(deltas * 4 // 5):
        event("response.output_text.delta", **place, delta=WORDS[n % len(WORDS)], logprobs=[], obfuscation="aXq0Ph7rQ2")
    text = "".join(WORDS[n % len(WORDS)] for n in range(deltas * 4 // 5))
    event("response.output_text.done", **place, text=text, logprobs=[])
    output.append({**message, "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
    event("response.output_item.done", output_index=0, item=output[0])
    for index, city in enumerate(("Oslo", "Bergen"), 1):
        item = {"id": f"fc_{index}", "type": "function_call", "call_id": f"call_{index}", "name": "get_weather"}
        event("response.output_item.added", output_index=index, item={**item, "arguments": ""})
        place = {"item_id": f"fc_{index}", "output_index": index}
        pieces = _arguments(city, deltas // 10)
        for piece in pieces:
            event("response.function_call_arguments.delta", **place, delta=piece, obfuscation="aXq0Ph7rQ2")
        output.append({**item, "arguments": "".join(pieces), "status": "completed"})
        event("response.function_call_arguments.done", **place, arguments="".join(pieces))
        event("response.output_item.done", output_index=index, item=output[-1])
    event("response.completed", response={"id": "resp_1", "status": "completed", "output": output, "usage": None})
    return events


SHAPES = {"openai": chat, "openai-compat": chat, "anthropic": messages, "openai-responses": responses}
