"""Facts of the Chat Completions API as data."""

from __future__ import annotations

import re

from turngate.domain.adapters.limits import Limits
from turngate.domain.adapters.wire_ids import IdRule

PATH = "/v1/chat/completions"

KINDS = frozenset(
    {
        "text",
        "image",
        "document",
        "thinking",
        "redacted_thinking",
        "reasoning",
        "tool_call",
        "tool_result",
        "refusal",
        "context",
        "notice",
    }
)
"""Kinds the adapter knows. Reasoning kinds are known and never replayed: this API has no place for them."""

CALL_IDS = IdRule(legal=re.compile(r"[\x21-\x7e]{1,64}"), unique=False)
LIMITS = Limits(tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"), max_tools=128, max_body=None)

USER_PARTS = frozenset({"text", "image_url", "input_audio", "file"})
"""Part types this API defines for a user message; such an opaque part is embedded as it is."""
