"""What a case is, and the few words in which cases are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]
Value = dict[str, Any]
OK: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded stream.

    events: exact payloads in order. calls: what must run, in order; for a bad case nothing may. why: in words, what
    makes a good case worth having, or why a bad one must not run.
    """

    name: str
    profile: str
    events: tuple[str, ...]
    good: bool
    calls: tuple[Call, ...]
    why: str
    forced: bool = False

    @property
    def api(self) -> str:
        return "messages" if self.profile == "anthropic" else "chat"


def good(name: str, profile: str, events: list[str], calls: list[Call], why: str) -> Case:
    return Case(name, profile, tuple(events), True, tuple(calls), why)


def bad(name: str, profile: str, events: list[str], why: str) -> Case:
    return Case(name, profile, tuple(events), False, (), why)


def text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


# -- Chat Completions ----------------------------------------------------------------------------------------


def chunk(delta: Value, reason: str | None = None, *, response: str = "chatcmpl-lab", **more: object) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    head = {"id": response, "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return text({**head, "choices": [choice], **more})


def piece(index: int | None, arguments: object = None, *, id: str | None = None, name: str | None = None) -> Value:
    """One element of `tool_calls`; an id opens the call."""
    function: Value = {}
    if name is not None:
        function["name"] = name
    if arguments is not None:
        function["arguments"] = arguments
    element: Value = {} if index is None else {"index": index}
    if id is not None:
        element |= {"id": id, "type": "function"}
    return {**element, "function": function}


def calling(*pieces: Value) -> str:
    return chunk({"tool_calls": list(pieces)})


ROLE = chunk({"role": "assistant", "content": None})
FINISH = chunk({}, "tool_calls")
DONE = "[DONE]"


def one_call(name: str, *fragments: str, end: tuple[str, ...] = (FINISH, DONE), first: str = ROLE) -> list[str]:
    """A call `call_a` whose arguments come in fragments."""
    return [
        first,
        calling(piece(0, "", id="call_a", name=name)),
        *(calling(piece(0, fragment)) for fragment in fragments),
        *end,
    ]


# -- Anthropic Messages --------------------------------------------------------------------------------------


def event(kind: str, **rest: object) -> str:
    return text({"type": kind, **rest})


MESSAGE: Value = {
    "id": "msg_lab", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1},
}  # fmt: skip
START = event("message_start", message=MESSAGE)
PING = event("ping")
STOP = event("message_stop")


def stop_reason(reason: str) -> str:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": 9})


def opens(index: int, name: str, id: str = "toolu_a") -> str:
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return event("content_block_start", index=index, content_block=block)


def adds(index: int, fragment: str) -> str:
    return event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": fragment})


def closes(index: int) -> str:
    return event("content_block_stop", index=index)


def use(index: int, name: str, *fragments: str, id: str = "toolu_a") -> list[str]:
    """A whole tool_use block."""
    return [opens(index, name, id), *(adds(index, fragment) for fragment in fragments), closes(index)]


def prose(index: int, *pieces: str) -> list[str]:
    """A whole text block."""
    begin = event("content_block_start", index=index, content_block={"type": "text", "text": ""})
    deltas = [
        event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece}) for piece in pieces
    ]
    return [begin, *deltas, closes(index)]


END = (stop_reason("tool_use"), STOP)
