"""One answer told in the stream format of every profile: for tests that care what is told, not how."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Event = dict[str, object]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. arguments: its argument text in pieces, together one JSON object."""

    ident: str
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says. handle: the provider's response id. generation: for the profile whose events carry it.

    Thinking is told only where the profile has a place for it.
    """

    handle: str
    generation: int
    thinking: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    call: Call | None = None


def told(profile: str, answer: Told) -> tuple[str, ...]:
    """The answer as raw events, terminal and usage included. Raises KeyError for a profile that is not here."""
    return tuple(event if isinstance(event, str) else _json(event) for event in _TELLERS[profile](answer))


def failure(profile: str, answer: Told) -> str:
    """An error inside the stream, retryable."""
    if profile == "canonical":
        own = {"handle": answer.handle, "generation": answer.generation}
        return _json({**own, "error": {"class": "retryable", "type": "overloaded"}})
    return _json(_FAILURES[profile])


def _json(event: Mapping[str, object]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


# --- OpenAI chat and those like it ------------------------------------------------------------------------------------


def _chat(answer: Told, thinking: str | None = None) -> list[Event | str]:
    first: Event = {"role": "assistant", "content": ""}
    deltas = [first]
    if thinking is not None:
        deltas += [_of(thinking, piece) for piece in answer.thinking]
    deltas += [_of("content", piece) for piece in answer.text]
    if answer.call is not None:
        named: Event = {"name": answer.call.name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, "id": answer.call.ident, "type": "function", "function": named}]})
        deltas += [_more_arguments(piece) for piece in answer.call.arguments]
    chunks: list[Event | str] = [_chunk(answer, delta, None) for delta in deltas]
    chunks.append(_chunk(answer, {}, _finish(answer)))
    usage: Event = {"prompt_tokens": 9, "completion_tokens": len(deltas), "total_tokens": 9 + len(deltas)}
    chunks.append({**_chunk(answer, {}, None), "choices": [], "usage": usage})
    chunks.append("[DONE]")
    return chunks


def _of(name: str, text: str) -> Event:
    return {name: text}


def _compat(answer: Told) -> list[Event | str]:
    return _chat(answer, thinking="reasoning_content")


def _finish(answer: Told) -> str:
    return "stop" if answer.call is None else "tool_calls"


def _more_arguments(piece: str) -> Event:
    return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _chunk(answer: Told, delta: Event, finish: str | None) -> Event:
    choice: Event = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": answer.handle, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _mistral(answer: Told) -> list[Event | str]:
    chunks: list[Event | str] = []
    for place, piece in enumerate(answer.thinking, 1):
        part: Event = {"type": "thinking", "thinking": [{"type": "text", "text": piece}]}
        if place == len(answer.thinking):
            part["closed"] = True
        chunks.append(_chunk(answer, {"content": [part]}, None))
    chunks += [_chunk(answer, {"content": piece}, None) for piece in answer.text]
    if answer.call is not None:
        function: Event = {"name": answer.call.name, "arguments": "".join(answer.call.arguments)}
        calls = [{"id": answer.call.ident, "index": 0, "function": function}]
        chunks.append(_chunk(answer, {"content": "", "tool_calls": calls}, None))
    usage: Event = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    chunks.append({**_chunk(answer, {"content": ""}, _finish(answer)), "usage": usage})
    chunks.append("[DONE]")
    return chunks


# --- Anthropic, Bedrock, Gemini ---------------------------------------------------------------------------------------


def _anthropic(answer: Told) -> list[Event | str]:
    message: Event = {"id": answer.handle, "type": "message", "role": "assistant", "content": [], "stop_reason": None}
    events: list[Event | str] = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 9, "output_tokens": 1}}}
    ]
    index = 0

    def block(start: Event, deltas: Sequence[Event]) -> None:
        nonlocal index
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
        index += 1

    if answer.thinking:
        thoughts: list[Event] = [{"type": "thinking_delta", "thinking": piece} for piece in answer.thinking]
        signature: Event = {"type": "signature_delta", "signature": "c2ln"}
        block({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature])
    if answer.text:
        block({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text])
    if answer.call is not None:
        use: Event = {"type": "tool_use", "id": answer.call.ident, "name": answer.call.name, "input": {}}
        pieces = answer.call.arguments
        block(use, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
    stop: Event = {"stop_reason": "end_turn" if answer.call is None else "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return events


def _bedrock(answer: Told) -> list[Event | str]:
    events: list[Event | str] = [{"messageStart": {"role": "assistant", "p": "abcd"}}]
    index = 0

    def block(deltas: Sequence[Event], start: Event | None = None) -> None:
        nonlocal index
        if start is not None:
            events.append({"contentBlockStart": {"contentBlockIndex": index, "start": start}})
        events.extend({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}} for delta in deltas)
        events.append({"contentBlockStop": {"contentBlockIndex": index}})
        index += 1

    if answer.thinking:
        thoughts: list[Event] = [{"reasoningContent": {"text": piece}} for piece in answer.thinking]
        block([*thoughts, {"reasoningContent": {"signature": "c2ln"}}])
    if answer.text:
        block([{"text": piece} for piece in answer.text])
    if answer.call is not None:
        use: Event = {"toolUse": {"toolUseId": answer.call.ident, "name": answer.call.name}}
        block([{"toolUse": {"input": piece}} for piece in answer.call.arguments], use)
    events.append({"messageStop": {"stopReason": "end_turn" if answer.call is None else "tool_use"}})
    events.append({"metadata": {"usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}}})
    return events


def _gemini(answer: Told) -> list[Event | str]:
    parts: list[Event] = [{"text": piece, "thought": True} for piece in answer.thinking]
    parts += [_of("text", piece) for piece in answer.text]
    if answer.call is not None:
        arguments = json.loads("".join(answer.call.arguments))
        parts.append({"functionCall": {"id": answer.call.ident, "name": answer.call.name, "args": arguments}})
    parts.append({"text": ""})
    chunks: list[Event | str] = []
    for place, part in enumerate(parts, 1):
        candidate: Event = {"index": 0, "content": {"role": "model", "parts": [part]}}
        if place == len(parts):
            candidate["finishReason"] = "STOP"
        usage: Event = {"promptTokenCount": 9, "candidatesTokenCount": place, "totalTokenCount": 9 + place}
        chunk: Event = {"candidates": [candidate], "usageMetadata": usage}
        chunks.append({**chunk, "modelVersion": "m", "responseId": answer.handle})
    return chunks


# --- OpenAI Responses and our own -------------------------------------------------------------------------------------


def _responses(answer: Told) -> list[Event | str]:
    body: Event = {"id": answer.handle, "object": "response", "status": "in_progress", "output": []}
    events: list[Event] = [{"type": "response.created", "response": body}]
    done: list[Event] = []
    if answer.text:
        whole = "".join(answer.text)
        at: Event = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        part: Event = {"type": "output_text", "text": "", "annotations": []}
        message: Event = {"id": "msg_1", "type": "message", "role": "assistant"}
        finished: Event = {**message, "status": "completed", "content": [{**part, "text": whole}]}
        opened: Event = {**message, "status": "in_progress", "content": []}
        events.append({"type": "response.output_item.added", "output_index": 0, "item": opened})
        events.append({"type": "response.content_part.added", **at, "part": part})
        events += [{"type": "response.output_text.delta", **at, "delta": piece} for piece in answer.text]
        events.append({"type": "response.output_text.done", **at, "text": whole})
        events.append({"type": "response.content_part.done", **at, "part": {**part, "text": whole}})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": finished})
        done.append(finished)
    if answer.call is not None:
        index, whole = len(done), "".join(answer.call.arguments)
        at = {"item_id": "fc_1", "output_index": index}
        call: Event = {"id": "fc_1", "type": "function_call", "call_id": answer.call.ident, "name": answer.call.name}
        finished = {**call, "status": "completed", "arguments": whole}
        opened = {**call, "status": "in_progress", "arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        deltas = answer.call.arguments
        events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in deltas]
        events.append({"type": "response.function_call_arguments.done", **at, "arguments": whole})
        events.append({"type": "response.output_item.done", "output_index": index, "item": finished})
        done.append(finished)
    usage: Event = {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16}
    ended: Event = {**body, "status": "completed", "output": done, "usage": usage}
    events.append({"type": "response.completed", "response": ended})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _canonical(answer: Told) -> list[Event | str]:
    own: Event = {"handle": answer.handle, "generation": answer.generation}
    events: list[Event | str] = []
    blocks = 0

    def block(kind: str, start: Event, deltas: Sequence[Event]) -> None:
        nonlocal blocks
        steps: list[Event] = [{"start": start}]
        steps.extend({"delta": delta} for delta in deltas)
        steps.append({"stop": {}})
        at: Event = {**own, "blockIndex": blocks, "kind": kind}
        events.extend({**at, "deltaSeq": number, **step} for number, step in enumerate(steps))
        blocks += 1

    if answer.thinking:
        block("reasoning", {}, [{"text": piece} for piece in answer.thinking])
    if answer.text:
        block("text", {}, [{"text": piece} for piece in answer.text])
    if answer.call is not None:
        start: Event = {"id": answer.call.ident, "name": answer.call.name}
        block("tool_call", start, [{"arguments": piece} for piece in answer.call.arguments])
    word = "complete" if answer.call is None else "tool_calls"
    events.append({**own, "turnStop": {"class": word, "reason": "done", "blocks": blocks}})
    events.append({**own, "usage": {"outputTokens": 7}})
    return events


_TELLERS: Mapping[str, Callable[[Told], list[Event | str]]] = {
    "openai": _chat,
    "openai-compat": _compat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "mistral": _mistral,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "canonical": _canonical,
}
PROFILES: tuple[str, ...] = tuple(_TELLERS)

_FAILURES: Mapping[str, Event] = {
    "openai": {"error": {"message": "x", "type": "server_error", "code": None}},
    "openai-compat": {"error": {"message": "x", "type": "server_error", "code": None}},
    "openai-responses": {
        "type": "error", "error": {"type": "server_error", "code": "server_error", "message": "x", "param": None},
        "sequence_number": 9999,
    },
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    "mistral": {
        "object": "error", "message": "Service unavailable.", "type": "unreachable_backend", "param": None,
        "code": "1100",
    },
    "gemini": {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
    "bedrock": {"modelStreamErrorException": {"message": "lost", "originalStatusCode": 500}},
}  # fmt: skip
