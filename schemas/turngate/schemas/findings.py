"""Findings: what a rule or a gate has to say, with a stable code and never any content."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from turngate.schemas.base import Count, Model


class GateCode(StrEnum):
    """Codes of the stream gate, DESIGN §11."""

    IDENTITY_COLLISION = "identity_collision"
    MISSING_SLOT = "missing_slot"
    MISSING_IDENTITY = "missing_identity"
    MISSING_TERMINAL = "missing_terminal"
    WRONG_TERMINAL_REASON = "wrong_terminal_reason"
    DUPLICATE_TERMINAL = "duplicate_terminal"
    DELTA_AFTER_TERMINAL = "delta_after_terminal"
    MISSING_EVENTS = "missing_events"
    MALFORMED_JSON = "malformed_json"
    TRAILING_JSON = "trailing_json"
    DUPLICATE_KEY = "duplicate_key"
    NON_FINITE_NUMBER = "non_finite_number"
    INVALID_UNICODE = "invalid_unicode"
    NON_OBJECT_ARGUMENTS = "non_object_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    UNSUPPORTED_SCHEMA = "unsupported_schema"
    SCHEMA_INVALID = "schema_invalid"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    MULTIPLE_CHOICES = "multiple_choices"
    UNKNOWN_EVENT = "unknown_event"
    PROVIDER_ERROR = "provider_error"
    TOO_LARGE = "too_large"


class HistoryCode(StrEnum):
    """Codes of the history rules, DESIGN §11."""

    ORPHAN_RESULT = "orphan_result"
    MISSING_RESULT = "missing_result"
    DUPLICATE_RESULT = "duplicate_result"
    RESULT_BEFORE_CALL = "result_before_call"
    RESULT_NOT_ADJACENT = "result_not_adjacent"
    RESULT_MISMATCH = "result_mismatch"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    INCOMPLETE_ARGUMENTS = "incomplete_arguments"
    PLANNED_CALL = "planned_call"
    UNKNOWN_KIND = "unknown_kind"
    ROLE_ORDER = "role_order"
    SYSTEM_NOT_FIRST = "system_not_first"
    EMPTY_CONTENT = "empty_content"
    ROLE_SPOOF = "role_spoof"
    INVALID_CALL_ID = "invalid_call_id"
    INVALID_TOOL_NAME = "invalid_tool_name"
    MISSING_SIGNATURE = "missing_signature"
    REVISION_CONFLICT = "revision_conflict"
    TOO_LARGE = "too_large"
    CONTEXT_OVERFLOW = "context_overflow"
    INVALID_UNICODE = "invalid_unicode"


class Finding(Model):
    """One finding. `path` is a JSON pointer-like place in the input; the message never quotes content."""

    code: str
    severity: Literal["error", "tolerated", "repaired", "note"] = "error"
    message: str
    block_id: str | None = None
    call_id: str | None = None
    path: str | None = None
    source: str | None = None
    slot: str | None = None
    event_index: Count | None = None
