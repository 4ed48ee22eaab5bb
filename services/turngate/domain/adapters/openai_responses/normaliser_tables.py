"""The words of the Responses stream, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from turngate.domain.adapters.openai_chat.normaliser_tables import AUTH_WORDS as AUTH_WORDS
from turngate.domain.adapters.openai_chat.normaliser_tables import INVALID_WORDS
from turngate.domain.stream.operations import BlockKind, DeltaField, StopClass

# -- what arrives in pieces ------------------------------------------------------------------------------------


class Family(NamedTuple):
    """One kind of streamed text. item: type of the item it belongs to. part: type of its part, where it has one.
    text: the field that holds the whole of it. place: the field that numbers the part inside its item."""

    item: str
    kind: BlockKind
    field: DeltaField
    text: str
    place: str | None = None
    part: str | None = None


TEXT = Family("message", "text", "text", "text", "content_index", "output_text")
REFUSAL = Family("message", "refusal", "text", "refusal", "content_index", "refusal")
SUMMARY = Family("reasoning", "reasoning", "text", "text", "summary_index", "summary_text")
REASONING = Family("reasoning", "reasoning", "text", "text", "content_index", "reasoning_text")
ARGUMENTS = Family("function_call", "tool_call", "arguments", "arguments")
INPUT = Family("custom_tool_call", "tool_call", "arguments", "input")

DELTAS: Mapping[str, Family] = {
    "response.output_text.delta": TEXT,
    "response.refusal.delta": REFUSAL,
    "response.reasoning_summary_text.delta": SUMMARY,
    "response.reasoning_text.delta": REASONING,
    "response.function_call_arguments.delta": ARGUMENTS,
    "response.custom_tool_call_input.delta": INPUT,
}

DONES: Mapping[str, Family] = {
    "response.output_text.done": TEXT,
    "response.refusal.done": REFUSAL,
    "response.reasoning_summary_text.done": SUMMARY,
    "response.reasoning_text.done": REASONING,
    "response.function_call_arguments.done": ARGUMENTS,
    "response.custom_tool_call_input.done": INPUT,
}

PARTS: Mapping[str, Family] = {
    family.part: family for family in (TEXT, REFUSAL, SUMMARY, REASONING) if family.part is not None
}
"""Type of a part -> what it holds."""

PART_EVENTS: Mapping[str, bool] = {
    "response.content_part.added": False,
    "response.content_part.done": True,
    "response.reasoning_part.added": False,
    "response.reasoning_part.done": True,
    "response.reasoning_summary_part.added": False,
    "response.reasoning_summary_part.done": True,
}
"""Event of a part -> whether it ends the part. `reasoning_part` is vLLM's word for a part of raw reasoning."""

# -- the other events --------------------------------------------------------------------------------------------

OPENINGS = frozenset({"response.created", "response.queued", "response.in_progress"})

TERMINALS: Mapping[str, frozenset[str]] = {
    "response.completed": frozenset({"completed"}),
    "response.incomplete": frozenset({"incomplete"}),
    "response.failed": frozenset({"failed", "cancelled"}),
    "response.cancelled": frozenset({"cancelled"}),
}
"""Terminal event -> the statuses its response may have; with another one nothing is believed."""

KEEPALIVE = "keepalive"
"""Undocumented. It consumes a sequence number."""

REPEATED = frozenset(
    {
        "response.output_text.annotation.added",
        "response.output_text_annotation.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
    }
)
"""Progress of an item, and what its end says again, whole."""

IGNORED = frozenset(
    {
        KEEPALIVE,
        "response.compaction.compacting",
        "response.steer.accepted",
        "response.steer.pending",
        "response.steer.failed",
    }
)
"""Events that carry nothing of the turn."""

UNKEPT = frozenset(
    {
        "response.audio.delta",
        "response.audio.done",
        "response.audio.transcript.delta",
        "response.audio.transcript.done",
    }
)
"""Content that no block can hold: the turn is not passed off as whole."""

# -- items -------------------------------------------------------------------------------------------------------

ItemClass = Literal["message", "reasoning", "function", "custom", "client", "server", "result"]
"""client: a call in a form that is never run here. server: the provider's own call. result: kept as it came."""

ITEMS: Mapping[str, ItemClass] = {
    "message": "message",
    "reasoning": "reasoning",
    "function_call": "function",
    "custom_tool_call": "custom",
    "computer_call": "client",
    "local_shell_call": "client",
    "shell_call": "client",
    "apply_patch_call": "client",
    "tool_search_call": "client",
    "web_search_call": "server",
    "file_search_call": "server",
    "code_interpreter_call": "server",
    "image_generation_call": "server",
    "mcp_call": "server",
    "mcp_approval_request": "server",
    "program": "server",
    "mcp_list_tools": "result",
    "program_output": "result",
    "shell_call_output": "result",
    "tool_search_output": "result",
    "compaction": "result",
    "configuration_update": "result",
}

CALLS: frozenset[ItemClass] = frozenset({"function", "custom", "client"})
"""What the client is to run."""

APPROVAL = "mcp_approval_request"

ENDED: frozenset[object] = frozenset({"completed", "", None})
"""Statuses of a call that has ended; a server that sends none means the same."""

# -- stops -------------------------------------------------------------------------------------------------------

INCOMPLETE: Mapping[object, StopClass] = {
    "max_output_tokens": "truncated",
    "max_messages": "truncated",
    "content_filter": "filtered",
    "steered": "paused",
}

INVALID_CODES = INVALID_WORDS | frozenset(
    {
        "bio_policy", "cyber_policy", "data_residency_mismatch", "empty_image_file", "image_content_policy_violation",
        "image_file_not_found", "image_file_too_large", "image_parse_error", "image_too_large", "image_too_small",
        "invalid_base64_image", "invalid_image", "invalid_image_format", "invalid_image_mode", "invalid_image_url",
        "invalid_prompt", "misalignment_policy_violation", "unsupported_image_media_type",
    }
)  # fmt: skip
"""Codes of errors that the same bytes would meet again."""

# -- bounds ------------------------------------------------------------------------------------------------------

OUTPUT_INDEX_MAX = 1_000_000
PARTS_MAX = 1024
"""Of one item. A block's number is `output_index * PARTS_MAX` plus its part's place by arrival, so blocks keep the
order of their items whatever the order they begin in."""
ITEMS_MAX = 1024
WINDOW_EVENTS = 4096
WINDOW_CHARACTERS = 8_000_000
