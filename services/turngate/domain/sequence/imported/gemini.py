"""Contents of generateContent as nodes; calls without ids are paired by order and name."""

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

_MEDIA = ("inlineData", "fileData")
_SERVER = {
    "executableCode": "server_tool_call",
    "toolCall": "server_tool_call",
    "codeExecutionResult": "server_tool_result",
    "toolResponse": "server_tool_result",
}


def read_gemini(history: JsonObject) -> Imported:
    """`contents` (or `messages`) with roles user and model; `systemInstruction` or `system` comes first."""
    out = NodeWriter()
    system = history.get("systemInstruction", history.get("system"))
    if system and (text := all_text(system)):
        out.add(-1, "system", "text", "systemInstruction", text=text)
    signed = (as_text(history.get("model")) or "").startswith("gemini-3")
    unanswered: list[tuple[str, str | None]] = []
    for index, message in enumerate(message_list(history, "contents", "messages")):
        path = f"contents[{index}]"
        role = {"model": "assistant", "user": "user", None: "user"}.get(as_text(message.get("role")))
        if role is None:
            out.finding(HistoryCode.UNKNOWN_KIND, "this API has no such role", f"{path}.role")
            continue
        parts = [as_object(part) for part in items(message.get("parts"))]
        if not parts:
            out.add(index, role, "text", path, text="")
        if any("functionCall" in part for part in parts):
            unanswered = []
            first = next(part for part in parts if "functionCall" in part)
            if signed and not first.get("thoughtSignature"):
                out.finding(HistoryCode.MISSING_SIGNATURE, "the first call of a step has no signature", path)
        for place, part in enumerate(parts):
            _part(out, index, role, part, f"{path}.parts[{place}]", unanswered)
    return out.done()


def _part(
    out: NodeWriter,
    index: int,
    role: str,
    part: JsonObject,
    path: str,
    unanswered: list[tuple[str, str | None]],
) -> None:
    if "functionCall" in part:
        call = as_object(part["functionCall"])
        name = as_text(call.get("name"))
        call_id = as_text(call.get("id")) or f"by-order:{path}"
        unanswered.append((call_id, name))
        given = object_text(call.get("args")) if call.get("args") is not None else "{}"
        out.add(index, role, "tool_call", path, call_id=call_id, tool=name, arguments=given)
    elif "functionResponse" in part:
        _response(out, index, role, as_object(part["functionResponse"]), path, unanswered)
    elif "text" in part:
        if part.get("thought") is True:
            out.add(index, role, "reasoning", path, text=as_text(part["text"]))
        elif part["text"] or not part.get("thoughtSignature"):
            out.add(index, role, "text", path, text=as_text(part["text"]) or "")
    else:
        known = next((_SERVER[name] for name in part if name in _SERVER), None)
        kind = known or ("image" if any(name in part for name in _MEDIA) else "(unknown part)")
        out.add(index, role, kind, path, text=all_text(part), opaque=True)


def _response(
    out: NodeWriter,
    index: int,
    role: str,
    response: JsonObject,
    path: str,
    unanswered: list[tuple[str, str | None]],
) -> None:
    name = as_text(response.get("name"))
    call_id = as_text(response.get("id"))
    match = next((pair for pair in unanswered if (pair[0] == call_id if call_id else pair[1] == name)), None)
    if match is not None:
        unanswered.remove(match)
    answered = match[0] if match is not None else call_id or f"unmatched:{path}"
    speaker = "tool" if role == "user" else role
    text = all_text(response.get("response"))
    out.add(index, speaker, "tool_result", path, call_id=answered, tool=name, text=text)
