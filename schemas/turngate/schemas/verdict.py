"""Verdict.v1: the validator's answer to a turn request."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Identifier, Name, Record
from turngate.schemas.findings import Finding
from turngate.schemas.requests import TurnRequest


class Verdict(Record):
    """READY commits; WAITING and PAUSED hold the request whole (`request`); REJECTED ends it with findings.

    reason: of WAITING or PAUSED, a stable word such as `operation_open`, `calls_open`, `unknown_toolset`,
    `paused`.
    """

    SCHEMA: ClassVar[str] = "Verdict"
    schema_: Literal["Verdict.v1"] = Field(default="Verdict.v1", alias="schema")
    tenant: Name
    conversation: Name
    request_id: Identifier
    verdict: Literal["READY", "WAITING", "REJECTED", "PAUSED"]
    findings: tuple[Finding, ...] = ()
    reason: Identifier | None = None
    base_revision: Count
    operation_id: Identifier | None = None
    sequence_digest: Digest | None = None
    request: TurnRequest | None = None
