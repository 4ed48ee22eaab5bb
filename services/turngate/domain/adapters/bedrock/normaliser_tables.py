"""The words of the ConverseStream union, as data."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.stream.operations import BlockKind, DeltaField, ErrorClass, StopClass

STOPS: Mapping[str, StopClass] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "tool_use": "tool_calls",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "content_filtered": "filtered",
    "guardrail_intervened": "filtered",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
"""Every other value is class unknown."""

PROMOTED: frozenset[str] = frozenset({"end_turn"})
"""Labels that some models send although they call tools. Never one that says that something was cut or filtered."""

TOOL_KINDS: Mapping[str, BlockKind] = {"tool_use": "tool_call", "server_tool_use": "server_tool_call"}
"""`start.toolUse.type`; absent means a client's tool."""

STARTS: Mapping[str, BlockKind] = {"toolResult": "server_tool_result", "image": "image"}
"""Blocks that are only ever given back verbatim, by the member of `start` that opens them."""

DELTAS: Mapping[str, tuple[DeltaField, frozenset[BlockKind], BlockKind | None]] = {
    "text": ("text", frozenset({"text"}), "text"),
    "toolUse": ("arguments", frozenset({"tool_call", "server_tool_call"}), None),
    "citation": ("citation", frozenset({"text"}), "text"),
    "toolResult": ("part", frozenset({"server_tool_result"}), None),
    "image": ("part", frozenset({"image"}), None),
}
"""Member of `delta` -> what it adds to, the kinds of block it may belong to, and the kind it opens by itself.

Text, citations and reasoning have no contentBlockStart: their first delta opens the block.
"""

REASONING: Mapping[str, tuple[DeltaField, BlockKind]] = {
    "text": ("text", "reasoning"),
    "signature": ("signature", "reasoning"),
    "redactedContent": ("part", "redacted_thinking"),
}
"""Member of `delta.reasoningContent` -> what it adds to, and the one kind of block it belongs to and opens."""

CLOSED_BY_TURN: frozenset[BlockKind] = frozenset({"text", "reasoning", "redacted_thinking"})
"""Blocks that begin without an event of their own may also end with the turn."""

ERROR_CLASSES: Mapping[str, ErrorClass] = {
    "validationException": "invalid_request",
    "resourceNotFoundException": "invalid_request",
    "accessDeniedException": "auth",
    "internalServerException": "retryable",
    "modelErrorException": "retryable",
    "modelNotReadyException": "retryable",
    "modelStreamErrorException": "retryable",
    "modelTimeoutException": "retryable",
    "serviceUnavailableException": "retryable",
    "throttlingException": "retryable",
}
"""Exceptions by their name in the union. One that is not listed is an error all the same, and may be retried."""

ERROR = "error"
"""The event that stands for a frame of message type `error`: {code, message}."""
