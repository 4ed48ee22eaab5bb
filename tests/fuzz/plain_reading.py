"""What a stream says by a plain reading, written apart from the normalisers: the oracle of the fuzzer.

It joins pieces by their slot and knows nothing of findings. It is asked only where the gate lets calls run, and then
the two must agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call as read. name, raw, value: None where the reading has no opinion; value stands for raw where it came as
    JSON."""

    ident: str | None
    name: str | None
    raw: str | None
    value: Any = None


class Pieces(NamedTuple):
    """Argument pieces in wire order, text or JSON, where the wire does not always say whose they are."""

    pieces: Sequence[Any]


Reading = Sequence[Call] | Pieces | None

_SENTINELS = ("[DONE]",)


def plain_reading(profile: str, events: Sequence[str]) -> Reading:
    """None: no opinion, of a profile that is not known here or a stream beyond a plain reader."""
    read = READERS.get(profile)
    if read is None:
        return None
    try:
        values = [json.loads(event) for event in events if event not in _SENTINELS]
        return read([value for value in values if isinstance(value, dict)])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError):
        return None


def contradiction(reading: Reading, calls: Sequence[Mapping[str, Any]]) -> str | None:
    """How the calls that run differ from the reading; None where they do not."""
    if reading is None:
        return None
    if isinstance(reading, Pieces):
        texts = [call["argumentsRaw"] for call in calls]
        return None if _can_be_dealt(list(reading.pieces), texts) else "the pieces do not make these arguments"
    if len(reading) != len(calls):
        return "another number of calls"
    for want, found in zip(reading, calls, strict=True):
        if want.ident is not None and want.ident != found["id"]:
            return "another id"
        if want.name is not None and want.name != found["name"]:
            return "another name"
        if want.raw is not None and want.raw != found["argumentsRaw"]:
            return "other argument text"
        if want.raw is None and want.value is not None and not _same(want.value, found["arguments"]):
            return "other arguments"
    return None


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _can_be_dealt(pieces: list[Any], texts: list[str]) -> bool:
    """Whether the pieces, in order, can be dealt to the calls so that each is exactly the join of its own."""
    states = {tuple(0 for _ in texts)}
    for piece in pieces:
        if piece in ("", None):
            continue
        following: set[tuple[int, ...]] = set()
        for state in states:
            for call, at in enumerate(state):
                end = _end_of(piece, texts[call], at)
                if end is not None:
                    following.add((*state[:call], end, *state[call + 1 :]))
        states = following
    return tuple(map(len, texts)) in states


def _end_of(piece: Any, text: str, at: int) -> int | None:
    """Where the piece ends inside the text; JSON is a whole text."""
    if isinstance(piece, str):
        return at + len(piece) if text.startswith(piece, at) else None
    return len(text) if at == 0 and text and _same(json.loads(text), piece) else None


# -- chat ------------------------------------------------------------------------------------------------------


def _fragments(values: list[dict[str, Any]]) -> Iterator[tuple[Any, dict[str, Any]]]:
    for chunk in values:
        for choice in chunk.get("choices") or []:
            for fragment in (choice.get("delta") or {}).get("tool_calls") or []:
                yield choice.get("index"), fragment


def _chat(values: list[dict[str, Any]]) -> Reading:
    found: dict[Any, list[Any]] = {}
    for choice, fragment in _fragments(values):
        function = fragment.get("function") or {}
        slot = found.setdefault((choice, fragment["index"]), [None, [], []])
        slot[0] = slot[0] or fragment.get("id") or None
        if function.get("name"):
            slot[1].append(function["name"])
        slot[2].append(function.get("arguments") or "")
    return [Call(i, names[0] if len(names) == 1 else None, "".join(raws)) for i, names, raws in found.values()]


def _chat_by_fragment(values: list[dict[str, Any]]) -> Reading:
    return Pieces([(fragment.get("function") or {}).get("arguments") for _, fragment in _fragments(values)])


# -- blocks ----------------------------------------------------------------------------------------------------


def _messages(values: list[dict[str, Any]]) -> Reading:
    found: dict[int, list[Any]] = {}
    for event in values:
        if event.get("type") == "message_start":
            for place, block in enumerate((event.get("message") or {}).get("content") or []):
                found.setdefault(place, [block, []])
        elif event.get("type") == "content_block_start":
            found[event["index"]] = [event["content_block"], []]
        elif event.get("type") == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            found[event["index"]][1].append(event["delta"]["partial_json"])
    return [
        Call(block["id"], block["name"], "".join(pieces) if not block.get("input") else None, block.get("input"))
        for _, (block, pieces) in sorted(found.items())
        if block.get("type") == "tool_use"
    ]


def _converse(values: list[dict[str, Any]]) -> Reading:
    found: dict[int, list[Any]] = {}
    for event in values:
        if event.get("contentBlockStart") is not None:
            start = event["contentBlockStart"]
            tool = (start.get("start") or {}).get("toolUse")
            if tool is not None:
                found[start["contentBlockIndex"]] = [tool, []]
        elif event.get("contentBlockDelta") is not None:
            delta = event["contentBlockDelta"]
            piece = (delta.get("delta") or {}).get("toolUse")
            if piece is not None:
                found[delta["contentBlockIndex"]][1].append(piece["input"])
    return [
        Call(tool["toolUseId"], tool["name"], "".join(pieces))
        for _, (tool, pieces) in sorted(found.items())
        if tool.get("type") != "server_tool_use"
    ]


def _canonical(values: list[dict[str, Any]]) -> Reading:
    found: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    for event in values:
        if event.get("kind") == "tool_call":
            steps = found.setdefault((event.get("choice", 0), event["blockIndex"]), {})
            steps.setdefault(event["deltaSeq"], event)
    calls: list[Call] = []
    for _, steps in sorted(found.items()):
        ordered = [step for _, step in sorted(steps.items())]
        start = next(step["start"] for step in ordered if "start" in step)
        raw = "".join(step["delta"]["arguments"] for step in ordered if "delta" in step)
        calls.append(Call(start["id"], start["name"], raw))
    return calls


# -- values at paths -------------------------------------------------------------------------------------------

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\['([^'\\]*)'\]|\[\"([^\"\\]*)\"\]")


def _gemini(values: list[dict[str, Any]]) -> Reading:
    calls: list[Call] = []
    is_open = False
    for chunk in values:
        for candidate in chunk.get("candidates") or []:
            for part in (candidate.get("content") or {}).get("parts") or []:
                call = part.get("functionCall")
                if call is None:
                    continue
                if not is_open:
                    calls.append(Call(call.get("id") or None, call["name"], None, call.get("args") or {}))
                elif call.get("name") not in (None, "", calls[-1].name):
                    return None
                for entry in call.get("partialArgs") or []:
                    _put(calls[-1].value, entry)
                is_open = call.get("willContinue") is True
    return calls


def _put(root: dict[str, Any], entry: dict[str, Any]) -> None:
    """One value at its path. Raises KeyError, TypeError or ValueError for a path of another form."""
    path = entry["jsonPath"]
    steps = [m[1] or m[3] or m[4] if m[2] is None else int(m[2]) for m in _STEP.finditer(path)]
    if "$" + "".join(m.group() for m in _STEP.finditer(path)) != path or not steps:
        raise ValueError("a path beyond a plain reader")
    (name,) = entry.keys() - {"jsonPath", "willContinue"}
    value = None if name == "nullValue" else entry[name]
    node: Any = root
    for step, following in pairwise(steps):
        fresh: Any = [] if isinstance(following, int) else {}
        if isinstance(node, list):
            if step == len(node):
                node.append(fresh)
            node = node[step]
        else:
            node = node.setdefault(step, fresh)
    last: Any = steps[-1]
    if isinstance(node, list):
        if last == len(node):
            node.append(value)
        else:
            node[last] += value
    else:
        node[last] = node[last] + value if last in node else value


# -- output items ----------------------------------------------------------------------------------------------


def _responses(values: list[dict[str, Any]]) -> Reading:
    """Events by their numbers, once each, or as they come where none has one; the arguments come in pieces, in a
    `done`, in the item, or in all. The id of its item stands for an output index that is missing."""
    numbered = {value["sequence_number"]: value for value in reversed(values) if "sequence_number" in value}
    if numbered and any("sequence_number" not in value for value in values):
        return None
    numbered = numbered or dict(enumerate(values))
    items: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[str]] = {}
    whole: dict[int, str] = {}
    places: dict[object, int] = {}
    for _, event in sorted(numbered.items()):
        word, index = event.get("type"), event.get("output_index")
        if index is None:
            index = places.get(event.get("item_id") or event.get("item", {}).get("id"))
        if word in ("response.output_item.added", "response.output_item.done"):
            item = event["item"]
            items[index] = item
            places.setdefault(item.get("id"), index)
            if item.get("type") == "function_call" and item.get("arguments"):
                whole[index] = item["arguments"]
        elif word == "response.function_call_arguments.delta":
            pieces.setdefault(index, []).append(event["delta"])
        elif word == "response.function_call_arguments.done":
            whole[index] = event["arguments"]
    return [
        Call(item.get("call_id"), item.get("name"), "".join(pieces[index]) if index in pieces else whole.get(index))
        for index, item in sorted(items.items())
        if item.get("type") == "function_call"
    ]


READERS: Mapping[str, Callable[[list[dict[str, Any]]], Reading]] = {
    "openai": _chat,
    "openai-compat": _chat_by_fragment,
    "mistral": _chat_by_fragment,
    "anthropic": _messages,
    "bedrock": _converse,
    "canonical": _canonical,
    "gemini": _gemini,
    "openai-responses": _responses,
}
