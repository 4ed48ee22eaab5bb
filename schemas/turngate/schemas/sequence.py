"""MessageSequence.v1, and the command on `sequences` that carries one to a dispatcher."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Generation, Identifier, Model, Name, Record
from turngate.schemas.blocks import Block, ToolEdge
from turngate.schemas.digests import record_digest
from turngate.schemas.requests import ToolChoice, TurnOptions


class MessageSequence(Record):
    """A complete, valid message sequence, built from committed turns alone (DESIGN §5)."""

    SCHEMA: ClassVar[str] = "MessageSequence"
    schema_: Literal["MessageSequence.v1"] = Field(default="MessageSequence.v1", alias="schema")
    tenant: Name
    conversation: Name
    conversation_revision: Count
    blocks: tuple[Block, ...]
    tool_edges: tuple[ToolEdge, ...] = ()
    adapter: Identifier
    adapter_digest: Digest
    toolset_digest: Digest | None = None
    model_revision: Identifier
    max_output_tokens: Count
    tool_choice: ToolChoice = ToolChoice()
    policy_digest: Digest
    history_digest: Digest
    sequence_digest: Digest


def sequence_digest(sequence: MessageSequence) -> str:
    """H(historyDigest, all other fields): the blocks enter through the history digest alone."""
    plain = sequence.model_dump(mode="python", by_alias=True, exclude_none=True)
    for name in ("blocks", "sequenceDigest"):
        plain.pop(name, None)
    return record_digest(plain)


class OperationSpec(Model):
    """What is fixed when an operation is created; kept with it in Redis, repeated in each of its commands."""

    operation_id: Identifier
    request_id: Identifier
    tenant: Name
    conversation: Name
    base_revision: Count
    cancel_generation: Generation
    sequence_digest: Digest
    options: TurnOptions


class SequenceCommand(Record):
    """One send (or re-issue) of an operation.

    expected_generation: the attempt generation the operation must have when this is accepted (0: never
    attempted).
    manifest_digest: set on a re-issue; what is rendered must match it. issue: counts the re-issues, for the
    record id.
    """

    SCHEMA: ClassVar[str] = "SequenceCommand"
    schema_: Literal["SequenceCommand.v1"] = Field(default="SequenceCommand.v1", alias="schema")
    spec: OperationSpec
    expected_generation: Generation
    mode: Literal["send", "resume", "query", "replay"] = "send"
    manifest_digest: Digest | None = None
    sequence: MessageSequence
