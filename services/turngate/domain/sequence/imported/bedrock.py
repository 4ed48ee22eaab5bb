"""Messages of Converse as nodes."""

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
    object_text,
)
from turngate.schemas.findings import HistoryCode

_MEDIA = {"image": "image", "document": "document", "video": "document", "audio": "document"}
_IGNORED = frozenset({"cachePoint", "guardContent", "citationsContent", "searchResult"})


def read_bedrock(history: JsonObject) -> Imported:
    """One-key blocks; toolResult blocks of a user message are the tool's words."""
    out = NodeWriter()
    system = history.get("system")
    if system and (text := all_text(system)):
        out.add(-1, "system", "text", "system", text=text)
    for index, message in enumerate(message_list(history, "messages")):
        path = f"messages[{index}]"
        role = as_text(message.get("role"))
        if role not in ("user", "assistant"):
            out.finding(HistoryCode.UNKNOWN_KIND, "this API has no such role here", f"{path}.role")
            continue
        blocks = items(message.get("content"))
        if not blocks:
            out.add(index, role, "text", f"{path}.content", text="")
        for place, block in enumerate(blocks):
            _block(out, index, role, as_object(block), f"{path}.content[{place}]")
    return out.done()


def _block(out: NodeWriter, index: int, role: str, block: JsonObject, path: str) -> None:
    name = next(iter(block), "(none)")
    part = as_object(block.get(name))
    if name == "text":
        out.add(index, role, "text", path, text=as_text(block["text"]) or "")
    elif name == "toolUse":
        given = part.get("input")
        out.add(
            index,
            role,
            "tool_call",
            path,
            call_id=as_text(part.get("toolUseId")),
            tool=as_text(part.get("name")),
            arguments=object_text(given) if isinstance(given, dict) else None,
        )
    elif name == "toolResult":
        if part.get("status") == "error" and not items(part.get("content")):
            out.finding(HistoryCode.EMPTY_CONTENT, "a result of status error needs content", f"{path}.toolResult")
        speaker = "tool" if role == "user" else role
        call_id, text = as_text(part.get("toolUseId")), all_text(part.get("content"))
        out.add(index, speaker, "tool_result", path, call_id=call_id, text=text)
    elif name == "reasoningContent":
        out.add(index, role, "reasoning", path, text=all_text(part), opaque=True)
    elif name not in _IGNORED:
        out.add(index, role, _MEDIA.get(name, name), path, text=all_text(part), opaque=True)
