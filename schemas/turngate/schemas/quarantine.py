"""What is kept and never acted on: quarantined frames and results, and dead letters."""

from __future__ import annotations

import base64
from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Generation, Identifier, Model, Record
from turngate.schemas.digests import sha256_hex

QUARANTINE_BYTES_MAX = 64 * 1024
"""Per record; DESIGN §6 keeps the first 64 KB of an (attempt, relay, reason)."""


class Origin(Model):
    """Where a record was read."""

    topic: str
    partition: Count
    offset: Count


class Payload(Model):
    """The raw bytes of a record, cut to a limit; text where they are UTF-8, else base64."""

    encoding: Literal["utf-8", "base64"]
    value: str
    length: Count
    digest: Digest


def payload_of(data: bytes | None, limit: int = QUARANTINE_BYTES_MAX) -> Payload:
    """The payload form of raw bytes, cut at `limit` bytes; `length` and `digest` are of the whole."""
    whole = data or b""
    cut = whole[:limit]
    digest = sha256_hex(whole)
    try:
        return Payload(encoding="utf-8", value=cut.decode("utf-8"), length=len(whole), digest=digest)
    except UnicodeDecodeError:
        return Payload(encoding="base64", value=base64.b64encode(cut).decode("ascii"), length=len(whole), digest=digest)


class Quarantined(Record):
    """A late, foreign or invalid frame or result. It changed nothing and will change nothing."""

    SCHEMA: ClassVar[str] = "Quarantined"
    schema_: Literal["Quarantined.v1"] = Field(default="Quarantined.v1", alias="schema")
    reason: Identifier
    origin: Origin
    key: str | None = None
    operation_id: Identifier | None = None
    generation: Generation | None = None
    relay: Count | None = None
    call_key: Identifier | None = None
    payload: Payload


class DeadLetter(Record):
    """A record that can never be processed, with why and where it came from; `detail` never holds content."""

    SCHEMA: ClassVar[str] = "DeadLetter"
    schema_: Literal["DeadLetter.v1"] = Field(default="DeadLetter.v1", alias="schema")
    reason: Identifier
    detail: str
    role: Identifier
    origin: Origin
    key: str | None = None
    payload: Payload
