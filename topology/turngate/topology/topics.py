"""Every topic, declared once: key, schemas, retention, limits, writers and readers.

Services take their topics from here and nowhere else; provisioning, ACLs, AsyncAPI and the diagram are
derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KIB = 1024
MIB = 1024 * KIB
FOREVER = -1

KeyKind = Literal["conversation", "call", "tenant", "window", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """One topic.

    key: what the record key is. retention_ms: -1 keeps without end.
    bytes_max: largest record value, in bytes. writers / readers: role names, `platform`, `executor` or
    `operator`.
    """

    name: str
    key: KeyKind
    schemas: tuple[str, ...]
    retention_ms: int
    bytes_max: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    cleanup: Literal["delete", "compact", "compact,delete"] = "delete"
    version: int = 1
    purpose: str = ""

    def full_name(self, prefix: str) -> str:
        """The name on the broker, e.g. `turngate.turns.v1`."""
        return f"{prefix}.{self.name}.v{self.version}"

    @property
    def keyed(self) -> bool:
        """Whether the record key is the conversation's, which then lies on its key's partition."""
        return self.key == "conversation"


_SPECS = (
    TopicSpec(
        name="turn-requests", key="conversation", schemas=("TurnRequest.v1",), retention_ms=7 * DAY_MS,
        bytes_max=MIB,
        writers=("platform", "edge", "ledger", "recovery"), readers=("validator",),
        purpose="wanted turns",
    ),
    TopicSpec(
        name="control", key="conversation", schemas=("Control.v1",), retention_ms=FOREVER, bytes_max=64 * KIB,
        writers=("platform", "edge", "operator", "recovery"), readers=("validator", "ledger", "recovery"),
        purpose="commands and due timers",
    ),
    TopicSpec(
        name="sequences", key="conversation", schemas=("SequenceCommand.v1",), retention_ms=7 * DAY_MS,
        bytes_max=8 * MIB, writers=("validator", "recovery"), readers=("dispatcher", "recovery"),
        purpose="valid message sequences to send",
    ),
    TopicSpec(
        name="verdicts", key="conversation", schemas=("Verdict.v1",), retention_ms=FOREVER, bytes_max=2 * MIB,
        writers=("validator",), readers=("platform", "recovery", "observer"),
        purpose="answers to turn requests",
    ),
    TopicSpec(
        name="manifests", key="conversation", schemas=("DispatchManifest.v1",), retention_ms=FOREVER,
        bytes_max=64 * KIB, writers=("dispatcher",), readers=("recovery", "observer"),
        purpose="the exact bytes of each operation, by digest",
    ),
    TopicSpec(
        name="dispatches", key="conversation", schemas=("Dispatch.v1",), retention_ms=FOREVER,
        bytes_max=64 * KIB,
        writers=("dispatcher",), readers=("recovery", "observer"),
        purpose="who sent which generation",
    ),
    TopicSpec(
        name="stream-events", key="conversation",
        schemas=("StreamBegin.v1", "StreamEvents.v1", "StreamEnd.v1", "StreamResolve.v1"),
        retention_ms=DAY_MS, bytes_max=2 * MIB,
        writers=("dispatcher", "recovery", "ledger"), readers=("reassembler",),
        purpose="raw provider events, relay by relay",
    ),
    TopicSpec(
        name="turns", key="conversation", schemas=("Turn.v1",), retention_ms=FOREVER, bytes_max=8 * MIB,
        writers=("validator", "reassembler", "ledger"),
        readers=("ledger", "recovery", "observer", "platform"),
        purpose="canonical history",
    ),
    TopicSpec(
        name="session-events", key="conversation", schemas=("SessionEvent.v1",), retention_ms=7 * DAY_MS,
        bytes_max=8 * MIB, writers=("validator", "reassembler", "ledger"),
        readers=("edge", "recovery", "platform"),
        purpose="the live stream of a conversation",
    ),
    TopicSpec(
        name="trace", key="conversation", schemas=("SessionEvent.v1",), retention_ms=FOREVER,
        bytes_max=8 * MIB,
        writers=("recovery",), readers=("platform", "operator"),
        purpose="complete session events, kept",
    ),
    TopicSpec(
        name="tool-calls", key="conversation", schemas=("ToolOrder.v1", "ToolCancel.v1"),
        retention_ms=FOREVER,
        bytes_max=2 * MIB, writers=("ledger",), readers=("executor", "recovery", "observer"),
        purpose="orders to tool executors",
    ),
    TopicSpec(
        name="tool-results", key="conversation", schemas=("ToolResult.v1", "ToolProgress.v1"),
        retention_ms=FOREVER,
        bytes_max=2 * MIB, writers=("executor",), readers=("ledger", "executor"),
        purpose="claims, heartbeats, progress and answers",
    ),
    TopicSpec(
        name="toolsets", key="tenant", schemas=("Toolset.v1",), retention_ms=FOREVER, bytes_max=2 * MIB,
        writers=("platform", "edge", "operator"), readers=("recovery",),
        purpose="immutable tool declarations by digest",
    ),
    TopicSpec(
        name="quarantine", key="conversation", schemas=("Quarantined.v1",), retention_ms=FOREVER,
        bytes_max=MIB,
        writers=("reassembler", "ledger"), readers=("operator", "observer"),
        purpose="late, foreign and invalid frames and results",
    ),
    TopicSpec(
        name="dead-letters", key="none", schemas=("DeadLetter.v1",), retention_ms=FOREVER, bytes_max=MIB,
        writers=("validator", "dispatcher", "reassembler", "ledger", "recovery", "edge"),
        readers=("operator",),
        purpose="records that can never be processed",
    ),
    TopicSpec(
        name="legacy-requests", key="conversation", schemas=("LegacyRequest.v1",), retention_ms=7 * DAY_MS,
        bytes_max=8 * MIB, writers=("platform",), readers=("dispatcher",),
        purpose="shadow mode: what the old path sent",
    ),
    TopicSpec(
        name="rollout-diffs", key="conversation", schemas=("RolloutDiff.v1",), retention_ms=30 * DAY_MS,
        bytes_max=256 * KIB, writers=("dispatcher",), readers=("observer", "operator"),
        purpose="shadow mode: what differs",
    ),
    TopicSpec(
        name="observer-turns-changelog", key="window", schemas=(), retention_ms=DAY_MS, bytes_max=4 * KIB,
        cleanup="compact,delete", writers=("observer",), readers=("observer",),
        purpose="the observer's table: turns per tenant and minute",
    ),
)  # fmt: skip

TOPICS: Mapping[str, TopicSpec] = {spec.name: spec for spec in _SPECS}
