"""What the simulator answers: plans, matched by rules. A script is JSON, or built in Python.

{"rules": [{"match": {"prefix": "/openai", "contains": "weather", "toolResults": false, "request": 1},
            "plan": {"text": ["Let me ", "look."], "tools": [{"id": "call_1", "name": "weather",
                     "arguments": ["{\\"city\\":", "\\"Oslo\\"}"]}], "fault": {"kind": "cut", "afterEvents": 5}}}]}

The first rule that matches is used; `request` counts the requests a rule's other conditions have matched, from 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

FaultKind = Literal["cut", "cut_bytes", "reset", "refuse", "stall", "error_event", "status", "garbage"]


class Part(BaseModel):
    """A part of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Fault(Part):
    """What goes wrong.

    cut: the connection is closed cleanly after `after_events` events. cut_bytes: in the middle of the next event.
    reset: the connection is aborted there. refuse: closed before any answer. stall: kept open without a byte.
    error_event: the provider's own error event there. status: a non-2xx answer. garbage: an event that is not JSON.
    """

    kind: FaultKind
    after_events: int = 0
    status: int = 500
    retry_after: str | None = None


class ToolPlan(Part):
    """One tool call; `arguments` are the fragments as they are streamed."""

    id: str
    name: str
    arguments: tuple[str, ...]


class Plan(Part):
    """One answer. delay_ms: between events. duplicate / reorder: event numbers sent twice, or swapped with the next.

    replay: path of a recorded stream (a raw SSE body, or a capture as JSON) sent instead of a made-up one; chunk_bytes
    splits its bytes.
    """

    thinking: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    tools: tuple[ToolPlan, ...] = ()
    stop: str | None = None
    usage: tuple[int, int] = (11, 7)
    delay_ms: Annotated[int, Field(ge=0)] = 0
    fault: Fault | None = None
    duplicate: tuple[int, ...] = ()
    reorder: tuple[int, ...] = ()
    replay: Path | None = None
    chunk_bytes: int | None = None


class Match(Part):
    """Conditions; all given ones must hold. contains: a substring of the last user text."""

    prefix: str | None = None
    contains: str | None = None
    tool_results: bool | None = None
    request: int | None = None


class Rule(Part):
    match: Match = Match()
    plan: Plan


class Script(Part):
    """Rules in order; without a match the answer is an echo of the last user text."""

    rules: tuple[Rule, ...] = ()


class ScriptRunner:
    """Chooses plans and counts, per rule, how often its other conditions have matched."""

    def __init__(self, script: Script) -> None:
        self.use(script)

    def use(self, script: Script) -> None:
        """Replaces the script; counts begin again."""
        self._script = script
        self._seen: dict[Match, int] = {}

    def choose(self, path: str, last_user: str, tool_results: bool) -> Plan:
        """The plan for one request."""
        for rule in self._script.rules:
            match = rule.match
            if match.prefix is not None and not path.startswith(match.prefix):
                continue
            if match.contains is not None and match.contains not in last_user:
                continue
            if match.tool_results is not None and match.tool_results != tool_results:
                continue
            if match.request is not None:
                key = match.model_copy(update={"request": None})
                group = [
                    other for other in self._script.rules if other.match.model_copy(update={"request": None}) == key
                ]
                if rule is group[0]:
                    self._seen[key] = self._seen.get(key, 0) + 1
                if self._seen[key] != match.request:
                    continue
            return rule.plan
        return Plan(text=(f"You said: {last_user}",))
