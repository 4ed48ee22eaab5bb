"""What the real providers refuse with a 400: the checks a fair stand-in must make too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Message = dict[str, object]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's gist. complaint: why it is refused, '' where it is not. with_usage: a usage chunk is asked for."""

    model: str
    last_user: str
    tool_results: bool
    complaint: str = ""
    with_usage: bool = False


def read_request(api: str, body: object) -> Asked:
    """The gist of a request body, and what its provider would refuse."""
    if not isinstance(body, dict):
        return Asked("", "", False, "body is not a JSON object")
    messages = body.get("messages")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return Asked("", "", False, "model: field required")
    if not isinstance(messages, list) or not messages:
        return Asked(model, "", False, "messages: at least one message is required")
    rows = [message for message in messages if isinstance(message, dict)]
    complaint = _openai_complaint(rows) if api == "openai" else _anthropic_complaint(rows, body)
    if body.get("stream") is not True:
        complaint = complaint or "stream: this simulator only streams, set it to true"
    options = body.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    return Asked(model, _last_user(rows), _ends_with_results(api, rows), complaint, with_usage)


def _openai_complaint(messages: Sequence[Message]) -> str:
    waiting: set[object] = set()
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting.discard(message.get("tool_call_id"))
            continue
        if waiting:
            return "an assistant message with 'tool_calls' must be followed by tool messages for each tool_call_id"
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            waiting = {call.get("id") for call in calls if isinstance(call, dict)}
    return "an assistant message with 'tool_calls' must be followed by tool messages" if waiting else ""


def _anthropic_complaint(messages: Sequence[Message], body: Message) -> str:
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: field required"
    waiting: set[object] = set()
    for message in messages:
        blocks = message.get("content")
        parts = [part for part in blocks if isinstance(part, dict)] if isinstance(blocks, list) else []
        results = {part.get("tool_use_id") for part in parts if part.get("type") == "tool_result"}
        if waiting - results:
            return "tool_use ids were found without tool_result blocks immediately after"
        if results - waiting:
            return "unexpected tool_use_id found in tool_result blocks"
        waiting = {part.get("id") for part in parts if part.get("type") == "tool_use"}
    return "tool_use ids were found without tool_result blocks" if waiting else ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _last_user(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user" and (text := _text(message.get("content"))):
            return text
    return ""


def _ends_with_results(api: str, messages: Sequence[Message]) -> bool:
    last = messages[-1]
    if api == "openai":
        return last.get("role") == "tool"
    content = last.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )
