"""TurnRequest.v1: what a platform (or the ledger) asks for."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Identifier, Model, Name, Record
from turngate.schemas.blocks import BlockContent, Kind, Role


class NewBlock(Model):
    """A block that is not committed yet; ids, digests and trust are given at the commit of its turn."""

    role: Role
    kind: Kind = "text"
    content: BlockContent


class ToolChoice(Model):
    """auto | none | required | one forced tool (then `tool` names it)."""

    mode: Literal["auto", "none", "required", "forced"] = "auto"
    tool: Identifier | None = None


class TurnOptions(Model):
    """How the wanted turn is to be made; carried along through the automatic turns that follow it.

    endpoint: name of a configured provider endpoint. max_turns: assistant turns still allowed in this run.
    """

    endpoint: Name
    model: Identifier
    max_output_tokens: int = Field(gt=0, le=1_000_000)
    toolset_digest: Digest | None = None
    tool_choice: ToolChoice = ToolChoice()
    auto_continue: bool = True
    max_turns: int = Field(default=25, ge=1, le=1000)


class TurnRequest(Record):
    """One wanted assistant turn: new blocks (maybe none), and how it is to be made.

    request_id is the idempotency key; cause_id is set where a held request comes back (`<requestId>/<head
    revision>`). base_revision, where given, must be the head; otherwise the answer is `revision_conflict`.
    withdraws: revision of the last input turn that is not to be rendered any more.
    """

    SCHEMA: ClassVar[str] = "TurnRequest"
    schema_: Literal["TurnRequest.v1"] = Field(default="TurnRequest.v1", alias="schema")
    tenant: Name
    conversation: Name
    request_id: Identifier
    cause_id: Identifier | None = None
    base_revision: Count | None = None
    blocks: tuple[NewBlock, ...] = ()
    withdraws: Count | None = None
    options: TurnOptions
