"""MessageSequence.v1 to the bytes of a Chat Completions request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

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
from turngate.domain.adapters.openai_chat import tables
from turngate.domain.adapters.parts import (
    JsonObject,
    Run,
    media_of,
    object_fragment,
    opaque_fragment,
    part_type,
    result_text,
    runs,
)
from turngate.domain.adapters.wire_ids import wire_ids
from turngate.schemas.blocks import Block
from turngate.schemas.findings import Finding
from turngate.schemas.requests import ToolChoice
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import ToolDeclaration, Toolset


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """One variant of the API. tokens_field: how the output limit is called there."""

    name: str
    version: int
    profile: str
    normaliser: str
    tokens_field: str
    capabilities: Capabilities
    kinds: frozenset[str] = tables.KINDS

    @property
    def digest(self) -> str:
        return source_digest("openai_chat", f"{self.name}@{self.version}:{self.tokens_field}")

    def render(self, sequence: MessageSequence, toolset: Toolset | None) -> RenderedRequest:
        require_kinds(sequence, self.kinds, self.name)
        tools = offered_tools(sequence, toolset)
        ids = wire_ids(sequence.blocks, tables.CALL_IDS)
        body: JsonObject = {
            "model": sequence.model_revision,
            "messages": [message for run in runs(sequence.blocks) for message in _messages(run, ids)],
        }
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
            body.update(_choice(sequence.tool_choice))
        body[self.tokens_field] = sequence.max_output_tokens
        body["n"] = 1
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
        data = orjson.dumps(body)
        return RenderedRequest(method="POST", path=tables.PATH, body=data, token_estimate=token_estimate(data))

    def admission(self, sequence: MessageSequence, toolset: Toolset | None) -> tuple[Finding, ...]:
        require_kinds(sequence, self.kinds, self.name)
        found = [
            *tool_findings(sequence, toolset, tables.LIMITS),
            *called_name_findings(sequence, tables.LIMITS),
        ]
        if not found:
            rendered = self.render(sequence, toolset)
            found.extend(size_findings(sequence, len(rendered.body), rendered.token_estimate, tables.LIMITS))
        return tuple(found)


def _messages(run: Run, ids: Mapping[str, str]) -> Iterator[JsonObject]:
    if run.speaker == "system":
        for block in run.blocks:
            yield {"role": block.role, "content": block.content.text or ""}
    elif run.speaker == "user":
        yield {"role": "user", "content": _user_content(run.blocks)}
    elif run.speaker == "tool":
        for block in run.blocks:
            yield {"role": "tool", "tool_call_id": ids[block.id], "content": result_text(block)}
    elif message := _assistant(run.blocks, ids):
        yield message


def _user_content(blocks: tuple[Block, ...]) -> object:
    """One text stays a string; several blocks become parts, in order."""
    if len(blocks) == 1 and blocks[0].kind not in ("image", "document"):
        return blocks[0].content.text or ""
    return [_user_part(block) for block in blocks]


def _user_part(block: Block) -> object:
    if block.kind not in ("image", "document"):
        return {"type": "text", "text": block.content.text or ""}
    if part_type(block) in tables.USER_PARTS:
        return opaque_fragment(block)
    media = media_of(block)
    if block.kind != "image" or media is None:
        raise UnsupportedKind(f"block {block.id}: no such part in this API", kind=block.kind, block_id=block.id)
    url = media.url if media.url is not None else f"data:{media.media_type};base64,{media.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(blocks: tuple[Block, ...], ids: Mapping[str, str]) -> JsonObject | None:
    """One assistant message, None where nothing of the turn can be said on this API."""
    texts = [block.content.text for block in blocks if block.kind == "text" and block.content.text]
    refusals = [block.content.text for block in blocks if block.kind == "refusal" and block.content.text]
    calls = [_call(block, ids) for block in blocks if block.kind == "tool_call"]
    if not texts and not refusals and not calls:
        return None
    message: JsonObject = {"role": "assistant", "content": None}
    if len(texts) == 1:
        message["content"] = texts[0]
    elif texts:
        message["content"] = [{"type": "text", "text": text} for text in texts]
    elif refusals:
        message["content"] = [{"type": "refusal", "refusal": "".join(refusals)}]
    if texts and refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: Block, ids: Mapping[str, str]) -> JsonObject:
    raw = block.content.arguments_raw
    if raw is None or block.content.tool is None:
        raise AdapterError(f"call {block.id} has no arguments", code="incomplete_arguments")
    function = {"name": block.content.tool, "arguments": raw or "{}"}
    return {"id": ids[block.id], "type": "function", "function": function}


def _tool(tool: ToolDeclaration) -> JsonObject:
    function: JsonObject = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = object_fragment(tool.input_schema, where=f"input schema of tool {tool.name}")
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> JsonObject:
    if choice.mode == "auto":
        return {}
    if choice.mode == "forced":
        return {"tool_choice": {"type": "function", "function": {"name": choice.tool}}}
    return {"tool_choice": choice.mode}
