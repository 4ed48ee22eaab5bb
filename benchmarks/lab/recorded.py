"""The conformance fixtures of the project that the lab runs, and why it leaves the others out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.lab.cases import Call, Case, text

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "conformance" / "fixtures"
BERGEN: Call = ("forecast", {"city": "Bergen"})

GOOD: dict[str, tuple[str, list[Call]]] = {
    "chat-text-only": ("a turn without calls", []),
    "chat-fragmented-call": ("one call in five fragments", [("forecast", {"city": "Tromsø", "days": 3})]),
    "chat-interleaved-calls": (
        "two calls whose fragments alternate",
        [BERGEN, ("forecast", {"city": "Bodø", "days": 2})],
    ),
    "chat-empty-deltas": ("deltas that hold nothing, before, inside and after a call", [BERGEN]),
    "chat-growing-prefix": ("arguments that are a whole object long before they end", [BERGEN]),
    "chat-unicode-split": (
        "an escaped surrogate pair divided between fragments",
        [("forecast", {"city": "Tromsø 😀 🌊"})],
    ),
    "chat-forced-stop": ("the label stop beside a call that the request forced", [("forecast", {"city": "Oslo"})]),
    "compat-delayed-id": ("the id comes with the second fragment of its call", [BERGEN]),
    "compat-delayed-name": ("the name comes with the second fragment of its call", [BERGEN]),
    "compat-no-index": (
        "whole calls without an index",
        [("forecast", {"city": "Bodø"}), ("forecast", {"city": "Moss"})],
    ),
    "compat-object-arguments": (
        "arguments as an object instead of text, with a large integer",
        [("count", {"n": 123456789012345678901234567890})],
    ),
    "messages-interleaved-calls": (
        "two tool_use blocks whose deltas alternate",
        [BERGEN, ("forecast", {"city": "Bodø"})],
    ),
    "messages-no-arguments": ("a tool without arguments: one empty delta", [("now", {})]),
    "messages-thinking-then-call": ("thinking with its signature, then a call", [("forecast", {"city": "Voss"})]),
    "messages-refusal": ("a refusal, no call", []),
}

BAD: dict[str, str] = {
    "chat-no-finish": "no finish reason came, only [DONE]: a proxy closed what the model had not",
    "chat-open-prefix": "the stream ends without a finish reason; that the arguments parse says nothing",
    "chat-length-after-whole-call": "the token limit cut the turn in its second call",
    "chat-content-filter-after-call": "the content filter ended the turn after a call",
    "chat-error-after-terminal": "the provider reports an error after the finish reason",
    "chat-reused-slot": "a second call takes the index of a first that is still open: pieces of two calls",
    "chat-repeated-call-id": "two calls under one id: no result could say which it answers",
    "chat-delta-after-terminal": "argument text after the finish reason",
    "chat-duplicate-terminal": "two finish reasons: a replayed or spliced response",
    "chat-malformed-json": "a proper finish, but the arguments never close",
    "chat-trailing-document": "a second document after the arguments",
    "chat-duplicate-key": "a key named twice: two readers, two calls",
    "chat-nan": "NaN is no JSON number",
    "chat-infinity": "Infinity is no JSON number",
    "chat-number-beyond-double": "a number no double can hold",
    "chat-lone-surrogate": "half of a surrogate pair: text that no UTF-8 can hold",
    "chat-non-object": "arguments that are a list",
    "chat-schema-invalid": "schema: an integer below its minimum, in fragments",
    "chat-unknown-tool": "a tool the request does not declare",
    "messages-cut-inside-arguments": "the stream ends inside the arguments",
    "messages-no-message-stop": "everything but message_stop: whether more would follow is unknown",
    "messages-overloaded-after-stop": "the provider reports an error after message_stop",
    "messages-reused-index": "a second block takes an index in use",
    "messages-delta-after-stop": "argument text after its block ended",
}

LEFT_OUT: dict[str, str] = {
    "chat-delayed-id": "the strict reading of `compat-delayed-id`, which is in the corpus",
    "chat-delayed-name": "the strict reading of `compat-delayed-name`, which is in the corpus",
    "chat-missing-index": "the strict reading of what `compat-no-index` holds",
    "chat-wrong-terminal-reason": "the label stop beside a call is right where the request forced the tool, and a "
    "library that only reads the stream cannot know",
    "chat-half-character-in-event": "strings that are UTF-16 inside join the two halves rightly",
    "chat-two-choices": "who asked for one choice may take the first",
    "chat-unknown-event": "whether an unknown event is ignored is a matter of policy",
    "chat-nested-too-deep": "a limit of turngate's",
    "chat-unsupported-keyword": "a limit of turngate's",
}


def fixture_events(fields: dict[str, Any]) -> tuple[str, ...]:
    """Events on one line each; a message_start gets what the API always sends and a fixture may leave out."""
    found = []
    for item in fields.get("chunks", fields.get("events", ())):
        if isinstance(item, dict) and item.get("type") == "message_start":
            item = {**item, "message": {"model": "m", "stop_sequence": None, **item["message"]}}
        found.append(item if isinstance(item, str) else text(item))
    return tuple(found)


def _case(name: str, good: bool, calls: list[Call], why: str) -> Case:
    fields = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    forced = fields.get("tool_choice") == "forced"
    return Case(name, fields["profile"], fixture_events(fields), good, tuple(calls), why, forced)


def cases() -> tuple[Case, ...]:
    good = (_case(name, True, calls, why) for name, (why, calls) in GOOD.items())
    bad = (_case(name, False, [], why) for name, why in BAD.items())
    return (*good, *bad)
