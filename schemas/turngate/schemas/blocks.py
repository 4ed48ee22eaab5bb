"""Blocks and tool edges: the nodes and edges of the message graph (DESIGN §5)."""

from __future__ import annotations

from typing import Literal

from turngate.schemas.base import Count, Digest, Generation, Identifier, Model
from turngate.schemas.digests import parts_digest

Role = Literal["system", "developer", "user", "assistant", "tool"]
Kind = Literal[
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
]
Trust = Literal["system", "operator", "user", "tool", "retrieved", "model"]
ResultStatus = Literal["success", "error", "cancelled"]
ArgumentState = Literal["planned", "open", "closed"]


class BlockContent(Model):
    """What a block says. Exactly what was received: text as text, opaque parts as their JSON text.

    text: text, thinking and refusal text, result text, notice text.
    data: an opaque provider part, the exact JSON text as received (redacted thinking, server tools, image
    parts).
    signature: a thinking signature, verbatim.
    tool, arguments_raw: of a tool_call; `arguments_raw` is the exact argument text.
    status: of a tool_result.
    """

    text: str | None = None
    data: str | None = None
    signature: str | None = None
    tool: Identifier | None = None
    arguments_raw: str | None = None
    status: ResultStatus | None = None
    media_type: str | None = None


class Block(Model):
    """One block of a committed turn or of a candidate.

    id: stable and unique in the conversation: role letter, revision of the turn, suffix (`u-80`, `a-81-c1`,
    `t-81-r1`).
    turn: revision of the turn that holds it. order: place inside the turn, from 0.
    scope: `conversation`, `turn`, or `artifact` with the covered revisions.
    """

    id: Identifier
    role: Role
    kind: Kind
    turn: Count
    order: Count
    trust: Trust
    scope: Literal["conversation", "turn", "artifact"] = "conversation"
    covers: tuple[Count, Count] | None = None
    call_id: Identifier | None = None
    digest: Digest
    content: BlockContent


def content_digest(kind: str, content: BlockContent) -> str:
    """Digest of a block's content over the exact texts received."""
    return parts_digest(
        kind,
        content.text or "",
        content.data or "",
        content.signature or "",
        content.tool or "",
        content.arguments_raw or "",
        content.status or "",
        content.media_type or "",
    )


class ToolEdge(Model):
    """A call and, once settled, its result.

    generation: of the response that committed the call. status: of the result, absent while the call is open.
    """

    call_id: Identifier
    tool: Identifier
    schema_digest: Digest
    arguments_digest: Digest
    argument_state: ArgumentState = "closed"
    generation: Generation
    result_id: Identifier | None = None
    status: ResultStatus | None = None
