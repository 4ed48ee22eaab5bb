"""Limits of a target API, checked before anything is committed: one small function each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from turngate.domain.adapters.base import UnsupportedKind, offered_tools
from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import ToolDeclaration, Toolset


@dataclass(frozen=True, slots=True)
class Limits:
    """max_body: bytes. max_tools None: none published. contexts: tokens by longest matching model prefix."""

    tool_name: re.Pattern[str]
    max_tools: int | None
    max_body: int | None
    contexts: tuple[tuple[str, int], ...] = ()


def require_kinds(sequence: MessageSequence, kinds: frozenset[str], adapter: str) -> None:
    """Raises UnsupportedKind for the first block this adapter does not know."""
    for block in sequence.blocks:
        if block.kind not in kinds:
            raise UnsupportedKind(
                f"{adapter} does not know kind {block.kind} (block {block.id})",
                kind=block.kind,
                block_id=block.id,
            )


def tool_findings(sequence: MessageSequence, toolset: Toolset | None, limits: Limits) -> Iterator[Finding]:
    """Number, names and schemas of the offered tools, and whether a forced tool is among them."""
    tools = offered_tools(sequence, toolset)
    if limits.max_tools is not None and len(tools) > limits.max_tools:
        yield _finding(HistoryCode.TOO_LARGE, f"{len(tools)} tools, the API takes {limits.max_tools}", "tools")
    for index, tool in enumerate(tools):
        if limits.tool_name.fullmatch(tool.name) is None:
            yield _finding(HistoryCode.INVALID_TOOL_NAME, "the API refuses this tool name", f"tools/{index}/name")
        if not _object_schema(tool):
            yield _finding(
                HistoryCode.INVALID_TOOL_NAME,
                "the input schema is not a JSON object",
                f"tools/{index}/inputSchema",
            )
    names = {tool.name for tool in tools}
    if len(names) != len(tools):
        yield _finding(HistoryCode.INVALID_TOOL_NAME, "two tools share a name", "tools")
    choice = sequence.tool_choice
    if choice.mode == "forced" and choice.tool not in names:
        yield _finding(HistoryCode.INVALID_TOOL_NAME, "the forced tool is not offered", "toolChoice/tool")
    if choice.mode == "required" and not tools:
        yield _finding(HistoryCode.INVALID_TOOL_NAME, "a tool is required and none is offered", "toolChoice/mode")


def called_name_findings(sequence: MessageSequence, limits: Limits) -> Iterator[Finding]:
    """Names of the calls in history."""
    for block in sequence.blocks:
        if block.kind == "tool_call" and limits.tool_name.fullmatch(block.content.tool or "") is None:
            yield Finding(
                code=HistoryCode.INVALID_TOOL_NAME,
                message="the API refuses the name of a tool called earlier",
                block_id=block.id,
                call_id=block.call_id,
            )


def size_findings(sequence: MessageSequence, body: int, tokens: int, limits: Limits) -> Iterator[Finding]:
    """body: bytes of the rendered body. tokens: estimated input tokens."""
    if limits.max_body is not None and body > limits.max_body:
        yield _finding(HistoryCode.TOO_LARGE, f"the body has {body} bytes, the API takes {limits.max_body}", "body")
    context = context_tokens(sequence.model_revision, limits)
    if context is not None and tokens + sequence.max_output_tokens > context:
        yield _finding(
            HistoryCode.CONTEXT_OVERFLOW,
            f"about {tokens} input and {sequence.max_output_tokens} output tokens exceed {context}",
            "maxOutputTokens",
        )


def context_tokens(model: str, limits: Limits) -> int | None:
    """Context size of a model in tokens, None where the tables do not know it."""
    matching = [(len(prefix), size) for prefix, size in limits.contexts if model.startswith(prefix)]
    return max(matching)[1] if matching else None


def _object_schema(tool: ToolDeclaration) -> bool:
    try:
        return isinstance(orjson.loads(tool.input_schema), dict)
    except orjson.JSONDecodeError:
        return False


def _finding(code: HistoryCode, message: str, path: str) -> Finding:
    return Finding(code=code, message=message, path=path)
