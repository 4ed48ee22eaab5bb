"""Plans as wire events: the exact data texts of both formats, with the event name where the format has one."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turngate.devstack.provider_sim.script import Plan
from turngate.schemas.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class WireEvent:
    """One SSE event."""

    data: str
    name: str | None = None

    def encode(self) -> bytes:
        head = f"event: {self.name}\n" if self.name is not None else ""
        return f"{head}data: {self.data}\n\n".encode()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def openai_events(plan: Plan, model: str, ident: str, *, with_usage: bool = True) -> list[WireEvent]:
    """A Chat Completions stream, `[DONE]` included, and the usage chunk where it was asked for."""

    def chunk(delta: object, finish: str | None = None) -> WireEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return WireEvent(_json(_chunk(ident, model, [choice])))

    events = [chunk({"role": "assistant", "content": "", "refusal": None})]
    events += [chunk({"content": text}) for text in plan.text]
    for index, tool in enumerate(plan.tools):
        function = {"name": tool.name, "arguments": ""}
        events.append(
            chunk({"tool_calls": [{"index": index, "id": tool.id, "type": "function", "function": function}]})
        )
        events += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}) for part in tool.arguments
        ]
    events.append(chunk({}, plan.stop or ("tool_calls" if plan.tools else "stop")))
    if with_usage:
        prompt, completion = plan.usage
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        events.append(WireEvent(_json({**_chunk(ident, model, []), "usage": usage})))
    events.append(WireEvent("[DONE]"))
    return events


def _chunk(ident: str, model: str, choices: list[object]) -> dict[str, object]:
    return {
        "id": ident,
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
        "choices": choices,
    }


def anthropic_events(plan: Plan, model: str, ident: str) -> list[WireEvent]:
    """A Messages stream, from message_start to message_stop."""
    events: list[WireEvent] = []

    def add(kind: str, **fields: object) -> None:
        events.append(WireEvent(_json({"type": kind, **fields}), kind))

    prompt, completion = plan.usage
    message: dict[str, object] = {
        "id": ident, "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": prompt, "output_tokens": 1},
    }  # fmt: skip
    add("message_start", message=message)
    add("ping")
    index = 0
    if plan.thinking:
        add("content_block_start", index=index, content_block={"type": "thinking", "thinking": "", "signature": ""})
        for text in plan.thinking:
            add("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": text})
        add("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "c2ln"})
        add("content_block_stop", index=index)
        index += 1
    if plan.text:
        add("content_block_start", index=index, content_block={"type": "text", "text": ""})
        for text in plan.text:
            add("content_block_delta", index=index, delta={"type": "text_delta", "text": text})
        add("content_block_stop", index=index)
        index += 1
    for tool in plan.tools:
        block = {"type": "tool_use", "id": tool.id, "name": tool.name, "input": {}}
        add("content_block_start", index=index, content_block=block)
        for part in ("", *tool.arguments):
            add("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part})
        add("content_block_stop", index=index)
        index += 1
    stop = plan.stop or ("tool_use" if plan.tools else "end_turn")
    add("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": completion})
    add("message_stop")
    return events


def error_event(api: str) -> WireEvent:
    """The error a provider puts into a stream that has begun."""
    if api == "anthropic":
        error: object = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return WireEvent(_json(error), "error")
    return WireEvent(_json({"error": {"message": "Sim error", "type": "server_error", "param": None, "code": None}}))


def error_body(api: str, status: int, message: str | None = None) -> dict[str, object]:
    """The JSON body of a non-2xx answer, in the provider's own shape."""
    kinds = {
        400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
        429: "rate_limit_error", 529: "overloaded_error",
    }  # fmt: skip
    kind = kinds.get(status, "api_error" if api == "anthropic" else "server_error")
    text = message or f"simulated {status}"
    if api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_sim"}
    code = "rate_limit_exceeded" if status == 429 else None
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def recorded_body(path: Path) -> bytes:
    """The bytes of a recorded stream: a raw SSE body as it is, or a capture's `raw_sse` or `events`.

    Raises ConfigurationError where the file cannot be read or is neither.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the recorded stream {path.name} cannot be read ({error.strerror})") from None
    if not data.lstrip().startswith(b"{"):
        return data
    try:
        capture = json.loads(data)
    except ValueError:
        return data
    if not isinstance(capture, dict) or "events" not in capture:
        raise ConfigurationError(f"{path.name} is JSON but no capture: it has no `events`")
    if isinstance(capture.get("raw_sse"), str):
        return str(capture["raw_sse"]).encode()
    if isinstance(capture.get("raw_eventstream_b64"), str):
        return base64.b64decode(capture["raw_eventstream_b64"])
    return b"".join(event.encode() for event in _captured(capture["events"]))


def _captured(events: Sequence[object]) -> list[WireEvent]:
    found: list[WireEvent] = []
    for event in events:
        if isinstance(event, str):
            found.append(WireEvent(event))
        elif isinstance(event, dict) and "_transport" not in event:
            wrapped = "data" in event and "event" in event
            data, name = (event["data"], event["event"]) if wrapped else (event, None)
            found.append(WireEvent(data if isinstance(data, str) else _json(data), name))
    return found
