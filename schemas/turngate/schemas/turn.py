"""Turn.v1: a committed turn, the only thing history is made of, and the receipt an assistant turn carries."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Generation, Identifier, Model, Name, Record
from turngate.schemas.blocks import Block, ToolEdge
from turngate.schemas.digests import record_digest
from turngate.schemas.requests import TurnOptions

StopClass = Literal["complete", "tool_calls", "truncated", "filtered", "paused", "error", "unknown"]


class GenerationNote(Model):
    """One attempt generation of the operation and how it ended."""

    generation: Generation
    status: Literal["completed", "failed", "timeout", "malformed", "aborted"]


class Receipt(Model):
    """What proves where a canonical turn came from (DESIGN §10).

    terminal: the provider's own stop value. events / deltas: counted over the winning relay.
    signature: Ed25519 over the turn digest, base64, where a key is configured.
    """

    request_digest: Digest
    manifest_digest: Digest
    adapter: Identifier
    adapter_digest: Digest
    normaliser: Identifier
    toolset_digest: Digest | None = None
    policy_digest: Digest
    generations: tuple[GenerationNote, ...]
    relay: Count
    handle: Identifier | None = None
    events: Count
    deltas: Count
    terminal: str | None = None
    turn_digest: Digest
    signature: str | None = None


class Turn(Record):
    """One committed turn: `revision` is the head after its commit.

    cause_id: requestId of an input turn, operationId of an assistant turn, `settled/<revision>` of a tool
    turn.
    usage_raw: the provider's own usage object, its exact JSON text.
    """

    SCHEMA: ClassVar[str] = "Turn"
    schema_: Literal["Turn.v1"] = Field(default="Turn.v1", alias="schema")
    tenant: Name
    conversation: Name
    revision: Count
    kind: Literal["input", "assistant", "tool"]
    blocks: tuple[Block, ...]
    tool_edges: tuple[ToolEdge, ...] = ()
    cause_id: Identifier
    history_digest: Digest
    withdraws: Count | None = None
    replaces: tuple[Count, Count] | None = None
    operation_id: Identifier | None = None
    generation: Generation | None = None
    stop: StopClass | None = None
    continues: bool | None = None
    usage_raw: str | None = None
    options: TurnOptions | None = None
    receipt: Receipt | None = None


def turn_digest(turn: Turn) -> str:
    """Digest over everything that makes the turn what it is: all fields but the receipt."""
    plain = turn.model_dump(mode="python", by_alias=True, exclude_none=True)
    plain.pop("receipt", None)
    return record_digest(plain)
