"""Facts of the Messages API as data."""

from __future__ import annotations

import re

from turngate.domain.adapters.limits import Limits
from turngate.domain.adapters.wire_ids import IdRule

PATH = "/v1/messages"
HEADERS = {"anthropic-version": "2023-06-01"}

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
        "server_tool_call",
        "server_tool_result",
        "refusal",
        "context",
        "notice",
    }
)
"""Kinds the adapter knows; `reasoning` (another API's) is known and dropped whole."""

CALL_IDS = IdRule(legal=re.compile(r"[A-Za-z0-9_-]{1,256}"), unique=True)
LIMITS = Limits(tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"), max_tools=None, max_body=32 * 1024 * 1024)
MAX_MESSAGES = 100_000

CITATIONS = frozenset(
    {
        "char_location",
        "page_location",
        "content_block_location",
        "search_result_location",
        "web_search_result_location",
    }
)
"""Types of the citations of an assistant's text; they are sent back with it."""

USER_PARTS = frozenset({"image", "document", "search_result", "container_upload"})
"""Part types this API defines for a user message; such an opaque part is embedded as it is."""
