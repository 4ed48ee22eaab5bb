"""Shadow mode: the legacy request beside ours, and what differs (DESIGN §6 Rollout)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Digest, Identifier, Name, Record
from turngate.schemas.findings import Finding


class LegacyRequest(Record):
    """The request a platform sent by its old path; `body` is the exact text."""

    SCHEMA: ClassVar[str] = "LegacyRequest"
    schema_: Literal["LegacyRequest.v1"] = Field(default="LegacyRequest.v1", alias="schema")
    tenant: Name
    conversation: Name
    request_id: Identifier
    endpoint: Name
    body: str


class RolloutDiff(Record):
    """How the shadow rendering differs from the legacy request, by bytes and by meaning."""

    SCHEMA: ClassVar[str] = "RolloutDiff"
    schema_: Literal["RolloutDiff.v1"] = Field(default="RolloutDiff.v1", alias="schema")
    tenant: Name
    conversation: Name
    request_id: Identifier
    same_bytes: bool
    same_meaning: bool
    manifest_digest: Digest
    legacy_digest: Digest
    findings: tuple[Finding, ...] = ()
