"""Tool declarations, toolsets, and the contract with tool executors (DESIGN §8)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from turngate.schemas.base import Count, Digest, Generation, Identifier, Millis, Model, Name, Record
from turngate.schemas.blocks import ResultStatus
from turngate.schemas.digests import record_digest

SideEffects = Literal["read", "idempotent", "at_most_once", "compensatable"]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class ToolDeclaration(Model):
    """One tool. `input_schema` is the JSON text of its JSON Schema, kept and sent byte for byte.

    approval: `never`, `always`, or `default` (asked for at_most_once and compensatable tools).
    deadline_ms: how long one execution may take before the ledger acts on it.
    """

    name: ToolName
    description: str = ""
    input_schema: str
    side_effects: SideEffects
    approval: Literal["default", "never", "always"] = "default"
    deadline_ms: Millis = 60_000


class Toolset(Record):
    """An immutable set of tools, kept by digest."""

    SCHEMA: ClassVar[str] = "Toolset"
    schema_: Literal["Toolset.v1"] = Field(default="Toolset.v1", alias="schema")
    tenant: Name
    tools: tuple[ToolDeclaration, ...] = Field(max_length=128)
    toolset_digest: Digest


def toolset_digest(tenant: str, tools: tuple[ToolDeclaration, ...]) -> str:
    return record_digest(
        {
            "tenant": tenant,
            "tools": [tool.model_dump(mode="python", by_alias=True, exclude_none=True) for tool in tools],
        }
    )


class ReplyTo(Model):
    """Where the answer must go: stock clients of other languages would choose another partition."""

    topic: str
    partition: Count


class CallIdentity(Record):
    """What an order, its progress and its result have in common."""

    tenant: Name
    conversation: Name
    call_key: Identifier
    call_id: Identifier
    tool: Identifier
    revision: Count
    generation: Generation
    attempt: Count
    arguments_digest: Digest
    idempotency_key: Identifier


class ToolOrder(CallIdentity):
    """Execute this once. `arguments_raw` is the exact text the model sent; `attempt` counts executions, from
    1.

    deadline_ms: when the ledger acts on its own (epoch milliseconds).
    """

    SCHEMA: ClassVar[str] = "ToolOrder"
    schema_: Literal["ToolOrder.v1"] = Field(default="ToolOrder.v1", alias="schema")
    arguments_raw: str
    schema_digest: Digest
    operation_id: Identifier
    deadline_ms: Millis
    side_effects: SideEffects
    reply_to: ReplyTo


class ToolResult(CallIdentity):
    """The one terminal answer to an order."""

    SCHEMA: ClassVar[str] = "ToolResult"
    schema_: Literal["ToolResult.v1"] = Field(default="ToolResult.v1", alias="schema")
    result_id: Identifier
    status: ResultStatus
    reason: Identifier | None = None
    content: str
    executor: Identifier | None = None


class ToolProgress(CallIdentity):
    """A heartbeat, a claim, or partial output; never settles anything."""

    SCHEMA: ClassVar[str] = "ToolProgress"
    schema_: Literal["ToolProgress.v1"] = Field(default="ToolProgress.v1", alias="schema")
    progress: Literal["claimed", "heartbeat", "output"]
    seq: Count
    content: str | None = None
    executor: Identifier | None = None


class ToolCancel(CallIdentity):
    """On tool-calls: the named order need not be executed (any more)."""

    SCHEMA: ClassVar[str] = "ToolCancel"
    schema_: Literal["ToolCancel.v1"] = Field(default="ToolCancel.v1", alias="schema")
    reason: Identifier
