"""Which fields of a provider's event are structure. One set for all profiles: what is not named here is content."""

from __future__ import annotations

import re

from turngate.domain.stream.jsonscan import Path

ARGUMENT_KEYS = frozenset({"arguments", "input", "args", "partial_json"})
"""Hold a call's arguments, as text or as JSON. What a normaliser itself reads as arguments need not be named."""

PATHED_KEYS = frozenset({"partialArgs", "partial_args"})
"""Lists of single values, each with the place in the arguments it belongs to."""
PATHED_PLACES = ("jsonPath", "json_path")

FREE_JSON = (
    ("response", "metadata"),
    ("toolResult", "json"),
    ("functionResponse", "response"),
    ("function_response", "response"),
    ("provider_metadata",),
    ("structuredContent",),
    ("structured_content",),
)
"""The nearest keys above JSON that users or their tools have written: no key and no value in it is structure."""

NAME_KEYS = frozenset({"name"})

_WORD_KEYS = frozenset(
    {
        *(
            "type",
            "object",
            "role",
            "event",
            "model",
            "phase",
            "kind",
            "op",
            "profile",
            "encoding",
            "mode",
            "execution",
        ),
        *("finish_reason", "native_finish_reason", "finishReason", "stop_reason", "stopReason", "stop", "stop_type"),
        *("reason", "status", "blockReason", "service_tier", "modelVersion", "field", "handle", "verdict"),
        *("category", "probability", "severity", "class", "errorClass", "error_class", "trafficType", *PATHED_PLACES),
    }
)
_WORD = re.compile(r"[A-Za-z0-9_.:/@$\[\]'\"*<>|-]{1,160}")
"""What a discriminator looks like, a JSON path among them. Anything else under such a key is content."""

_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ERROR_KEYS = frozenset({"code", "errorCode", "error_code"})
_IDS = re.compile(r"id|.*(?:_id|Id)")
_COUNTED = frozenset({"usage", "usageMetadata", "x_groq", "metrics"})
_NUMBER_KEYS = frozenset(
    {
        *("created", "created_at", "completed_at", "createTime", "sequence_number", "deltaSeq", "delta_seq", "seq"),
        *("choice", "generation", "block", "blocks", "slot", "originalStatusCode", "nullValue"),
    }
)


def last_key(path: Path) -> str:
    """The nearest key above a value; of a list's elements that of the list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def is_free(path: Path) -> bool:
    """Whether JSON at this place is anybody's. Places in lists do not count."""
    keys = tuple(step for step in path if isinstance(step, str))
    return bool(path) and isinstance(path[-1], str) and any(keys[-len(above) :] == above for above in FREE_JSON)


def keeps_text(path: Path, value: str) -> bool:
    """Whether this string of an event is structure: a word that tells events apart, an id, a tool's name."""
    key = last_key(path)
    if _IDS.fullmatch(key) or key in NAME_KEYS:
        return True
    if key in _ERROR_KEYS:
        near_error = len(path) == 1 or any(isinstance(step, str) and "rror" in step for step in path)
        return near_error and _CODE.fullmatch(value) is not None
    return key in _WORD_KEYS and _WORD.fullmatch(value) is not None


def keeps_number(path: Path) -> bool:
    """Whether this number of an event is structure: a place, a count, a time, a code word written as a number."""
    key = last_key(path)
    if key.lower().endswith("index") or key in _NUMBER_KEYS or key in _WORD_KEYS or key in _ERROR_KEYS:
        return True
    return any(step in _COUNTED for step in path)
