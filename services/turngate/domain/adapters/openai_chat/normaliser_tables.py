"""The words of Chat Completions and its dialects, as data."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.stream.operations import StopClass

STRICT_STOPS: Mapping[str, StopClass] = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "truncated",
    "content_filter": "filtered",
}

LEGACY_STOP = "function_call"
"""Stands for one call of the legacy form, which has no id and is never run."""

COMPAT_STOPS: Mapping[str, StopClass] = {
    **STRICT_STOPS,
    "eos": "complete",
    "model_length": "truncated",
    "error": "error",
    "abort": "error",
    "insufficient_system_resource": "error",
}
"""Union over the servers that speak the dialect; every other value is class unknown."""

REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")
"""In order of preference, where a server sends more than one."""

IGNORABLE_DELTA_KEYS = frozenset(
    {"annotations", "audio", "executed_tools", "obfuscation", "provider_metadata", "web_search_data"}
)
"""Delta fields known to carry no client call: citations, audio, and what a server did by itself."""

AUTH_WORDS = frozenset({"authentication_error", "permission_error", "invalid_api_key", "401", "403"})
INVALID_WORDS = frozenset(
    {
        "invalid_request_error", "context_length_exceeded", "insufficient_quota", "credit_balance_exhausted",
        "400", "402", "404", "413", "422",
    }
)  # fmt: skip
"""Types and codes of in-stream errors that the same bytes would meet again: bad requests and empty accounts."""


def is_tool_like(key: str) -> bool:
    """Whether an unknown delta field may hold a part of a call: such a field is never passed over in
    silence."""
    return "tool" in key or "call" in key or "function" in key
