"""MessageSequence.v1 to the bytes of a Messages request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from turngate.domain.adapters.anthropic import tables
from turngate.domain.adapters.base import (
    AdapterError,
    Capabilities,
    RenderedRequest,
    UnsupportedKind,
    offered_tools,
    source_digest,
    token_estimate,
)
from turngate.domain.adapters.limits import called_name_findings, require_kinds, size_findings, tool_findings
from turngate.domain.adapters.parts import (
    JsonObject,
    listed_types,
    media_of,
    object_fragment,
    opaque_fragment,
    part_type,
    result_text,
    runs,
)
from turngate.domain.adapters.wire_ids import wire_ids
from turngate.schemas.blocks import Block
from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.requests import ToolChoice
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import ToolDeclaration, Toolset


@dataclass(frozen=True, slots=True)
class AnthropicMessages:
    """The Messages API at one pinned `anthropic-version`."""

    name: str
    version: int
    profile: str
    normaliser: str
    capabilities: Capabilities
    kinds: frozenset[str] = tables.KINDS

    @property
    def digest(self) -> str:
        return source_digest("anthropic", f"{self.name}@{self.version}")

    def render(self, sequence: MessageSequence, toolset: Toolset | None) -> RenderedRequest:
        require_kinds(sequence, self.kinds, self.name)
        tools = offered_tools(sequence, toolset)
        body: JsonObject = {"model": sequence.model_revision, "max_tokens": sequence.max_output_tokens}
        system = [block for block in sequence.blocks if block.role in ("system", "developer")]
        if len(system) == 1:
            body["system"] = system[0].content.text or ""
        elif system:
            body["system"] = [{"type": "text", "text": block.content.text or ""} for block in system]
        body["messages"] = _messages(sequence)
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
            body.update(_choice(sequence.tool_choice))
        body["stream"] = True
        data = orjson.dumps(body)
        return RenderedRequest(
            method="POST",
            path=tables.PATH,
            headers=tables.HEADERS,
            body=data,
            token_estimate=token_estimate(data),
        )

    def admission(self, sequence: MessageSequence, toolset: Toolset | None) -> tuple[Finding, ...]:
        require_kinds(sequence, self.kinds, self.name)
        found = [
            *tool_findings(sequence, toolset, tables.LIMITS),
            *called_name_findings(sequence, tables.LIMITS),
            *_signature_findings(sequence),
        ]
        if not found:
            rendered = self.render(sequence, toolset)
            found.extend(size_findings(sequence, len(rendered.body), rendered.token_estimate, tables.LIMITS))
            if len(_messages(sequence)) > tables.MAX_MESSAGES:
                found.append(Finding(code=HistoryCode.TOO_LARGE, message="more messages than the API takes"))
        return tuple(found)


def _messages(sequence: MessageSequence) -> list[JsonObject]:
    """Alternating messages; results open the user message after their calls, text that follows joins it."""
    ids = wire_ids(sequence.blocks, tables.CALL_IDS)
    messages: list[JsonObject] = []
    for run in runs(sequence.blocks):
        if run.speaker == "system":
            continue
        role = "assistant" if run.speaker == "assistant" else "user"
        parts = [part for block in run.blocks for part in _parts(block, ids)]
        if not parts or (role == "assistant" and not any(_speaks(block) for block in run.blocks)):
            continue
        last = messages[-1] if messages else None
        if last is not None and last["role"] == role and isinstance(last["content"], list):
            last["content"].extend(parts)
        else:
            messages.append({"role": role, "content": parts})
    return messages


def _speaks(block: Block) -> bool:
    """False for a blank text: the API refuses it alone in a message and takes it beside other blocks."""
    return block.kind not in ("text", "refusal") or bool((block.content.text or "").strip())


def _parts(block: Block, ids: Mapping[str, str]) -> Iterator[object]:
    """The parts of one block: one, or none where this API has no place for it."""
    kind, content = block.kind, block.content
    if kind == "tool_call":
        yield _call(block, ids)
    elif kind == "tool_result":
        yield _result(block, ids)
    elif kind == "thinking":
        if content.signature is not None:
            yield {"type": "thinking", "thinking": content.text or "", "signature": content.signature}
        elif content.data is not None and part_type(block) == "thinking":
            yield opaque_fragment(block)
    elif kind == "redacted_thinking":
        yield _redacted(block)
    elif kind in ("server_tool_call", "server_tool_result"):
        yield opaque_fragment(block)
    elif kind == "reasoning":
        return
    elif kind in ("image", "document"):
        yield _media(block)
    elif content.text:
        yield _text(block, content.text)


def _text(block: Block, text: str) -> JsonObject:
    """A text; of an assistant's one with this API's citations, those too, byte for byte."""
    part: JsonObject = {"type": "text", "text": text}
    if block.role == "assistant" and tables.CITATIONS.issuperset(listed_types(block) or {"none"}):
        part["citations"] = orjson.Fragment(block.content.data or "[]")
    return part


def _redacted(block: Block) -> object:
    """Either the whole part as received, or its `data` string alone."""
    if part_type(block) == "redacted_thinking":
        return opaque_fragment(block)
    if not block.content.data:
        raise AdapterError(f"block {block.id} has no data to replay", code="missing_signature")
    return {"type": "redacted_thinking", "data": block.content.data}


def _media(block: Block) -> object:
    if part_type(block) not in tables.USER_PARTS:
        media = media_of(block)
        if block.kind not in ("image", "document") or media is None:
            raise UnsupportedKind(f"block {block.id}: no such part in this API", kind=block.kind, block_id=block.id)
        source = (
            {"type": "url", "url": media.url}
            if media.url is not None
            else {"type": "base64", "media_type": media.media_type, "data": media.base64}
        )
        return {"type": block.kind, "source": source}
    return opaque_fragment(block)


def _call(block: Block, ids: Mapping[str, str]) -> JsonObject:
    raw = block.content.arguments_raw
    if raw is None or block.content.tool is None:
        raise AdapterError(f"call {block.id} has no arguments", code="incomplete_arguments")
    given = object_fragment(raw or "{}", where=f"arguments of call {block.id}")
    return {"type": "tool_use", "id": ids[block.id], "name": block.content.tool, "input": given}


def _result(block: Block, ids: Mapping[str, str]) -> JsonObject:
    part: JsonObject = {"type": "tool_result", "tool_use_id": ids[block.id]}
    if text := result_text(block):
        part["content"] = text
    if block.content.status in ("error", "cancelled"):
        part["is_error"] = True
    return part


def _tool(tool: ToolDeclaration) -> JsonObject:
    out: JsonObject = {"name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["input_schema"] = object_fragment(tool.input_schema, where=f"input schema of tool {tool.name}")
    return out


def _choice(choice: ToolChoice) -> JsonObject:
    if choice.mode == "auto":
        return {}
    if choice.mode == "forced":
        return {"tool_choice": {"type": "tool", "name": choice.tool}}
    return {"tool_choice": {"type": "any" if choice.mode == "required" else "none"}}


def _signature_findings(sequence: MessageSequence) -> Iterator[Finding]:
    """Unsigned thinking in a turn whose results go back: the API refuses it, nothing can repair it."""
    last = max((block.turn for block in sequence.blocks if block.role == "assistant"), default=None)
    in_tools = any(block.kind == "tool_call" and block.turn == last for block in sequence.blocks)
    for block in sequence.blocks:
        unsigned = block.kind == "thinking" and block.content.signature is None and block.content.data is None
        if unsigned and in_tools and block.turn == last:
            yield Finding(
                code=HistoryCode.MISSING_SIGNATURE,
                message="thinking before a tool call has no signature",
                block_id=block.id,
            )
