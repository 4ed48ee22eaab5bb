"""Control.v1: one schema for all commands, one owning role for each (DESIGN §11)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Generation, Identifier, Millis, Name, Record

LEDGER_COMMANDS = frozenset({"cancel", "interrupt", "approve", "deny", "timer"})
VALIDATOR_COMMANDS = frozenset({"pause", "resume", "fork", "withdraw", "close", "compact", "set_rollout", "erase"})
RECOVERY_COMMANDS = frozenset({"resolve_unknown"})

Command = Literal[
    "cancel", "interrupt", "approve", "deny", "timer",
    "pause", "resume", "fork", "withdraw", "close", "compact", "set_rollout", "erase",
    "resolve_unknown",
]  # fmt: skip


class Control(Record):
    """One command. Which optional fields are needed depends on the command; its owner checks and says what
    is missing.

    timer: timer_id, due_ms (written by recovery when a ledger timer is due).
    cancel: operation_id or expected_cancel_generation. approve / deny: call_key. resolve_unknown:
    operation_id, generation.
    """

    SCHEMA: ClassVar[str] = "Control"
    schema_: Literal["Control.v1"] = Field(default="Control.v1", alias="schema")
    tenant: Name
    conversation: Name
    control_id: Identifier
    command: Command
    operation_id: Identifier | None = None
    generation: Generation | None = None
    expected_cancel_generation: Generation | None = None
    call_key: Identifier | None = None
    timer_id: Identifier | None = None
    due_ms: Millis | None = None
    revision: Count | None = None
    reason: str | None = Field(default=None, max_length=1000)
    actor: Identifier | None = None
