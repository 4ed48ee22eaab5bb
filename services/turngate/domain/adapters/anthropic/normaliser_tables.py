"""The words of the Anthropic stream, as data."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.stream.operations import BlockKind, DeltaField, ErrorClass, StopClass

STOPS: Mapping[str, StopClass] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "tool_use": "tool_calls",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    "compaction": "paused",
    "refusal": "filtered",
}

KINDS: Mapping[str, BlockKind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": "tool_call",
    "server_tool_use": "server_tool_call",
    "mcp_tool_use": "server_tool_call",
    "compaction": "server_tool_result",
    "fallback": "server_tool_result",
    "container_upload": "server_tool_result",
}
"""Block type -> kind. Every `*_tool_result` is a server_tool_result too; opaque parts are kept verbatim."""

DELTAS: Mapping[str, tuple[str, DeltaField]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "text"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "arguments"),
    "citations_delta": ("citation", "citation"),
    "compaction_delta": ("", "part"),
}
"""Delta type -> its field and what it adds to. An empty field name: the whole delta, verbatim."""

DELTA_KINDS: Mapping[str, frozenset[BlockKind]] = {
    "text_delta": frozenset({"text"}),
    "thinking_delta": frozenset({"thinking"}),
    "signature_delta": frozenset({"thinking"}),
    "input_json_delta": frozenset({"tool_call", "server_tool_call"}),
    "citations_delta": frozenset({"text"}),
    "compaction_delta": frozenset({"server_tool_result"}),
}

ERROR_CLASSES: Mapping[str, ErrorClass] = {
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
    "request_too_large": "invalid_request",
    "billing_error": "invalid_request",
    "authentication_error": "auth",
    "permission_error": "auth",
}
"""In-stream error types that the same bytes would meet again; all others may be retried."""

SPENT_CODES = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
"""Codes in `error.details.error_code` that no retry helps, whatever the type beside them says."""
