"""What the gate has to say about a stream: stable codes, places, and never any content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turngate.schemas.errors import Refused

Severity = Literal["error", "tolerated", "note"]

GateCode = Literal[
    "identity_collision",
    "missing_slot",
    "missing_identity",
    "missing_terminal",
    "wrong_terminal_reason",
    "duplicate_terminal",
    "delta_after_terminal",
    "missing_events",
    "malformed_json",
    "trailing_json",
    "duplicate_key",
    "non_finite_number",
    "invalid_unicode",
    "non_object_arguments",
    "unknown_tool",
    "unsupported_schema",
    "schema_invalid",
    "duplicate_call_id",
    "multiple_choices",
    "unknown_event",
    "provider_error",
    "too_large",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. Only severity `error` blocks.

    slot: `choice/index` of the provider's slot. event_index: place of the event in the relay, from 0.
    path: JSON pointer into the tool schema or the arguments. The message never quotes content.
    """

    code: GateCode
    message: str
    severity: Severity = "error"
    slot: str | None = None
    event_index: int | None = None
    path: str | None = None


class UnknownNormaliser(Refused):
    """No normaliser of this profile and version exists in this build."""

    code = "unsupported_profile"
