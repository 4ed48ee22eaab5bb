"""The merge a stream processor is asked for: a stream's chunks become one answer. Plain, no checks; orjson alone.

state: {"text": ..., "calls": {index: {"id", "name", "arguments"}}}, the answer so far.
"""

from __future__ import annotations

from typing import Any

import orjson

State = dict[str, Any]


def merge(state: State | None, frame: dict[str, Any]) -> State:
    """The state with a frame's Chat Completions chunks merged in."""
    state = state or {"text": "", "calls": {}}
    calls: dict[str, Any] = state["calls"]
    texts = [state["text"]]
    for raw in frame["events"]:
        for choice in orjson.loads(raw)["choices"]:
            delta = choice["delta"]
            if delta.get("content"):
                texts.append(delta["content"])
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(str(part["index"]), {"id": "", "name": "", "arguments": ""})
                call["id"] = part.get("id") or call["id"]
                call["name"] = part["function"].get("name") or call["name"]
                call["arguments"] += part["function"].get("arguments") or ""
    state["text"] = "".join(texts)
    return state
