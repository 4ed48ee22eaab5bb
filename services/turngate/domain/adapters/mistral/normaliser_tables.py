"""The words of the Mistral stream, as data."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.stream.operations import StopClass

STOPS: Mapping[str, StopClass] = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "length": "truncated",
    "model_length": "truncated",
    "error": "error",
}

NO_ID = "null"
"""What Mistral's own client writes where a call has no id, and what its servers refuse as one."""

OPAQUE_CHUNKS = frozenset({"audio", "document_url", "file", "image_url", "input_audio"})
"""Content chunks that are kept verbatim as blocks of their own."""
