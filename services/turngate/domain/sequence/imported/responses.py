"""Input items of the Responses API as nodes."""

from __future__ import annotations

from turngate.domain.sequence.imported.reader import (
    Imported,
    JsonObject,
    NodeWriter,
    all_text,
    as_object,
    as_text,
    items,
    message_list,
)
from turngate.schemas.findings import HistoryCode

_PARTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "input_image": "image",
    "input_file": "document",
    "input_audio": "document",
}
_ROLES = frozenset({"user", "assistant", "system", "developer"})


def read_responses(history: JsonObject) -> Imported:
    """`input` (or `messages`); adjacent items of the model are one turn, adjacent outputs another."""
    out = NodeWriter()
    system = as_text(history.get("instructions", history.get("system")))
    if system:
        out.add(-1, "system", "text", "instructions", text=system)
    group, speaker = 0, ""
    for index, item in enumerate(message_list(history, "input", "messages")):
        path = f"input[{index}]"
        word = as_text(item.get("type")) or "message"
        own = _speaker(word, item)
        if own != speaker:
            group, speaker = group + 1, own
        _item(out, group, word, item, path)
    return out.done()


def _speaker(word: str, item: JsonObject) -> str:
    if word == "message":
        return as_text(item.get("role")) or ""
    return "tool" if word.endswith("_call_output") else "assistant"


def _item(out: NodeWriter, group: int, word: str, item: JsonObject, path: str) -> None:
    if word == "message":
        _message(out, group, item, path)
    elif word == "function_call":
        call_id, name = as_text(item.get("call_id")), as_text(item.get("name"))
        given = as_text(item.get("arguments"))
        out.add(group, "assistant", "tool_call", path, call_id=call_id, tool=name, arguments=given)
    elif word == "function_call_output":
        text = all_text(item.get("output"))
        out.add(group, "tool", "tool_result", path, call_id=as_text(item.get("call_id")), text=text)
    elif word == "reasoning":
        out.add(group, "assistant", "reasoning", path, text=all_text(item), opaque=True)
    elif word.endswith("_call"):
        out.add(group, "assistant", "server_tool_call", path, text=all_text(item), opaque=True)
    else:
        out.add(group, "assistant", word, path, opaque=True)


def _message(out: NodeWriter, group: int, item: JsonObject, path: str) -> None:
    role = as_text(item.get("role"))
    if role not in _ROLES:
        out.finding(HistoryCode.UNKNOWN_KIND, "this API has no such role", f"{path}.role")
        return
    content = item.get("content")
    if not isinstance(content, list) or not content:
        out.add(group, role, "text", f"{path}.content", text=as_text(content) or "")
        return
    for place, value in enumerate(items(content)):
        part = as_object(value)
        word = as_text(part.get("type")) or "(none)"
        kind, where = _PARTS.get(word, word), f"{path}.content[{place}]"
        if kind in ("text", "refusal"):
            out.add(group, role, kind, where, text=as_text(part.get(kind)) or "")
        else:
            out.add(group, role, kind, where, text=all_text(part), opaque=True)
