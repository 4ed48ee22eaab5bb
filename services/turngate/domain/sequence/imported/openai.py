"""Chat Completions messages (and Mistral's) as nodes."""

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

_PART_KINDS = {
    "text": "text",
    "image_url": "image",
    "input_audio": "document",
    "file": "document",
    "document_url": "document",
    "reference": "document",
    "thinking": "reasoning",
    "refusal": "refusal",
}


def read_openai(history: JsonObject) -> Imported:
    """Arguments must be text; legacy `function_call` and unknown roles are unknown kinds."""
    return _read(history, objects=False)


def read_mistral(history: JsonObject) -> Imported:
    """As Chat Completions; arguments may be an object, and a last assistant message may be a `prefix`."""
    return _read(history, objects=True)


def _read(history: JsonObject, *, objects: bool) -> Imported:
    out = NodeWriter()
    if (system := as_text(history.get("system"))) is not None:
        out.add(-1, "system", "text", "system", text=system)
    for index, message in enumerate(message_list(history, "messages")):
        path = f"messages[{index}]"
        role = as_text(message.get("role"))
        if role in ("system", "developer", "user"):
            _content(out, index, role, message.get("content"), path)
        elif role == "assistant":
            _assistant(out, index, message, path, objects=objects)
        elif role == "tool":
            _result(out, index, message, path)
        else:
            out.finding(HistoryCode.UNKNOWN_KIND, "this API has no such role", f"{path}.role")
    return out.done()


def _content(out: NodeWriter, index: int, role: str, content: object, path: str) -> None:
    """A string is one text; a list is its parts; anything else is empty."""
    if not isinstance(content, list) or not content:
        out.add(index, role, "text", f"{path}.content", text=as_text(content) or "")
        return
    for place, value in enumerate(items(content)):
        part = as_object(value)
        word = as_text(part.get("type")) or "(none)"
        kind = _PART_KINDS.get(word, word)
        where = f"{path}.content[{place}]"
        if kind in ("text", "refusal"):
            out.add(index, role, kind, where, text=as_text(part.get(kind)) or "")
        else:
            out.add(index, role, kind, where, text=all_text(part), opaque=True)


def _assistant(out: NodeWriter, index: int, message: JsonObject, path: str, *, objects: bool) -> None:
    calls = items(message.get("tool_calls"))
    refusal = as_text(message.get("refusal"))
    if (reasoning := as_text(message.get("reasoning_content"))) is not None:
        out.add(index, "assistant", "reasoning", f"{path}.reasoning_content", text=reasoning)
    if message.get("content") or not (calls or refusal or message.get("function_call")):
        _content(out, index, "assistant", message.get("content"), path)
    if refusal:
        out.add(index, "assistant", "refusal", f"{path}.refusal", text=refusal)
    if message.get("function_call"):
        out.finding(HistoryCode.UNKNOWN_KIND, "a legacy call has no id", f"{path}.function_call")
    for place, value in enumerate(calls):
        call = as_object(value)
        where = f"{path}.tool_calls[{place}]"
        if as_text(call.get("type")) not in (None, "function"):
            out.finding(HistoryCode.UNKNOWN_KIND, "calls of this type are not known", f"{where}.type")
        function = as_object(call.get("function"))
        given = function.get("arguments")
        out.add(
            index,
            "assistant",
            "tool_call",
            where,
            call_id=as_text(call.get("id")),
            tool=as_text(function.get("name")),
            arguments=object_text(given) if objects and isinstance(given, dict) else as_text(given),
        )


def _result(out: NodeWriter, index: int, message: JsonObject, path: str) -> None:
    content = message.get("content")
    for place, value in enumerate(items(content)):
        if as_text(as_object(value).get("type")) != "text":
            out.finding(HistoryCode.UNKNOWN_KIND, "a result holds text only", f"{path}.content[{place}]")
    if content is None or content == []:
        out.finding(HistoryCode.EMPTY_CONTENT, "a result needs content, if only an empty text", f"{path}.content")
    out.add(
        index,
        "tool",
        "tool_result",
        path,
        call_id=as_text(message.get("tool_call_id")),
        tool=as_text(message.get("name")) or None,
        text=all_text(content),
    )
