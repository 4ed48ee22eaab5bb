"""Messages of the Anthropic API as nodes."""

from __future__ import annotations

from turngate.domain.sequence.graph import Nodes
from turngate.domain.sequence.imported.reader import (
    Imported,
    JsonObject,
    NodeWriter,
    all_text,
    as_object,
    as_text,
    items,
    message_list,
    object_text,
)
from turngate.schemas.findings import HistoryCode

_MEDIA = {
    "image": "image",
    "document": "document",
    "search_result": "document",
    "container_upload": "document",
}
_SERVER = {"server_tool_use": "server_tool_call", "mcp_tool_use": "server_tool_call"}
_OPAQUE = frozenset({"compaction", "fallback"})
_RESULT_PARTS = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})
_THINKING_ON = frozenset({"enabled"})


def read_anthropic(history: JsonObject) -> Imported:
    """System text first, then messages; result blocks of a user message are the tool's words."""
    out = NodeWriter()
    _system(out, history.get("system"))
    for index, message in enumerate(message_list(history, "messages")):
        path = f"messages[{index}]"
        role = as_text(message.get("role"))
        if role not in ("user", "assistant", "system"):
            out.finding(HistoryCode.UNKNOWN_KIND, "this API has no such role", f"{path}.role")
            continue
        content = message.get("content")
        if not isinstance(content, list) or not content:
            out.add(index, role, "text", f"{path}.content", text=as_text(content) or "")
            continue
        for place, part in enumerate(items(content)):
            _block(out, index, role, as_object(part), f"{path}.content[{place}]")
    if as_text(as_object(history.get("thinking")).get("type")) in _THINKING_ON:
        _thinking_first(out)
    return out.done()


def _system(out: NodeWriter, system: object) -> None:
    if isinstance(system, str):
        if system:
            out.add(-1, "system", "text", "system", text=system)
        return
    for place, part in enumerate(items(system)):
        out.add(-1, "system", "text", f"system[{place}]", text=as_text(as_object(part).get("text")) or "")


def _block(out: NodeWriter, index: int, role: str, part: JsonObject, path: str) -> None:
    word = as_text(part.get("type")) or "(none)"
    if word == "text":
        out.add(index, role, "text", path, text=as_text(part.get("text")) or "")
    elif word == "thinking":
        signature = as_text(part.get("signature"))
        out.add(index, role, "thinking", path, text=as_text(part.get("thinking")), signature=signature)
    elif word == "redacted_thinking":
        out.add(index, role, word, path, text=as_text(part.get("data")), opaque=bool(part.get("data")))
    elif word == "tool_use":
        given = part.get("input")
        out.add(
            index,
            role,
            "tool_call",
            path,
            call_id=as_text(part.get("id")),
            tool=as_text(part.get("name")),
            arguments=object_text(given) if isinstance(given, dict) else None,
        )
    elif word == "tool_result":
        _result(out, index, role, part, path)
    elif word in _OPAQUE or word.endswith("_tool_result"):
        out.add(index, role, "server_tool_result", path, text=all_text(part), opaque=True)
    else:
        kind = _MEDIA.get(word) or _SERVER.get(word) or word
        out.add(index, role, kind, path, text=all_text(part), opaque=True)


def _result(out: NodeWriter, index: int, role: str, part: JsonObject, path: str) -> None:
    content = part.get("content")
    if content == []:
        out.finding(HistoryCode.EMPTY_CONTENT, "an empty list is refused; leave the content out", f"{path}.content")
    for place, value in enumerate(items(content)):
        if as_text(as_object(value).get("type")) not in _RESULT_PARTS:
            out.finding(HistoryCode.UNKNOWN_KIND, "a result holds no such part", f"{path}.content[{place}]")
    out.add(
        index,
        "tool" if role == "user" else role,
        "tool_result",
        path,
        call_id=as_text(part.get("tool_use_id")),
        text=all_text(content),
        status="error" if part.get("is_error") is True else "success",
    )


def _thinking_first(out: NodeWriter) -> None:
    """With thinking on, the assistant turn whose results go back starts with its thinking block."""
    last = _last_assistant(tuple(out.nodes))
    if last and any(node.is_call for node in last) and last[0].kind not in ("thinking", "redacted_thinking"):
        out.findings.append(
            last[0].finding(HistoryCode.MISSING_SIGNATURE, "thinking is on, yet the tool turn starts without it")
        )


def _last_assistant(nodes: Nodes) -> Nodes:
    spoken = [node.message for node in nodes if node.role == "assistant"]
    return tuple(node for node in nodes if spoken and node.message == spoken[-1] and node.role == "assistant")
