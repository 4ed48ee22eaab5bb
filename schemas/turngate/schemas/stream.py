"""Frames of `stream-events`: what one relay reports, in order (DESIGN §7).

A frame is a report; the scripts decide.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Generation, Identifier, Millis, Name, Record

EndCause = Literal["eof", "reset", "timeout", "http", "cancelled", "handover", "notSent", "ownerGone"]
Evidence = Literal[
    "notSent",
    "rejected",
    "terminal",
    "providerTerminal",
    "connectionClosed",
    "ownerRestarted",
    "timeLimit",
    "operator",
]
"""Why an attempt can no longer produce anything, DESIGN §6 "Evidence of termination"."""


class FrameBase(Record):
    """Names the attempt and the relay; the headers do too, so a frame can be skipped unparsed."""

    tenant: Name
    conversation: Name
    operation_id: Identifier
    generation: Generation
    relay: Count


class BeginFrame(FrameBase):
    """Before the first byte of the relay."""

    SCHEMA: ClassVar[str] = "StreamBegin"
    schema_: Literal["StreamBegin.v1"] = Field(default="StreamBegin.v1", alias="schema")
    profile: Identifier
    normaliser: Identifier
    manifest_digest: Digest
    owner: Identifier
    boot: Count


class EventsFrame(FrameBase):
    """Consecutive raw events: `events` are the exact JSON texts, `first_seq` numbers the first, from 0."""

    SCHEMA: ClassVar[str] = "StreamEvents"
    schema_: Literal["StreamEvents.v1"] = Field(default="StreamEvents.v1", alias="schema")
    handle: Identifier | None = None
    profile: Identifier
    first_seq: Count
    events: tuple[str, ...]


class EndFrame(FrameBase):
    """The relay is over. count: events relayed (absent where the owner is gone).

    For cause http: status, error_class (the provider table's class) and retry_after_ms.
    evidence: set where the writer holds evidence that the attempt can produce nothing more.
    """

    SCHEMA: ClassVar[str] = "StreamEnd"
    schema_: Literal["StreamEnd.v1"] = Field(default="StreamEnd.v1", alias="schema")
    cause: EndCause
    count: Count | None = None
    status: Annotated[int, Field(ge=100, le=599)] | None = None
    error_class: Identifier | None = None
    retry_after_ms: Millis | None = None
    evidence: Evidence | None = None
    control_id: Identifier | None = None


class ResolveFrame(FrameBase):
    """Evidence about an UNKNOWN attempt, stored in Redis before this frame is written."""

    SCHEMA: ClassVar[str] = "StreamResolve"
    schema_: Literal["StreamResolve.v1"] = Field(default="StreamResolve.v1", alias="schema")
    evidence: Evidence
    cause_id: Identifier


Frame = BeginFrame | EventsFrame | EndFrame | ResolveFrame
