"""DispatchManifest.v1 fixes an operation's exact bytes; Dispatch.v1 says who sent which generation."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.schemas.base import Count, Digest, Generation, Identifier, Millis, Name, Record
from turngate.schemas.digests import record_digest


class DispatchManifest(Record):
    """What is sent, to the byte. `manifest_digest` covers everything but itself and `created_at_ms`.

    request_bytes: length of the body. token_count: the adapter's estimate of input tokens.
    """

    SCHEMA: ClassVar[str] = "DispatchManifest"
    schema_: Literal["DispatchManifest.v1"] = Field(default="DispatchManifest.v1", alias="schema")
    operation_id: Identifier
    tenant: Name
    conversation: Name
    conversation_revision: Count
    sequence_digest: Digest
    adapter: Identifier
    adapter_digest: Digest
    normaliser: Identifier
    profile: Identifier
    provider: Name
    model: Identifier
    toolset_digest: Digest | None = None
    policy_digest: Digest
    method: Literal["POST"] = "POST"
    path: str
    request_digest: Digest
    request_bytes: Count
    token_count: Count
    max_output_tokens: Count
    manifest_digest: Digest
    created_at_ms: Millis


def manifest_digest(manifest: DispatchManifest) -> str:
    plain = manifest.model_dump(mode="python", by_alias=True, exclude_none=True)
    for name in ("manifestDigest", "createdAtMs"):
        plain.pop(name, None)
    return record_digest(plain)


class Dispatch(Record):
    """Written before the first byte of a relay: from here on the attempt may have been sent."""

    SCHEMA: ClassVar[str] = "Dispatch"
    schema_: Literal["Dispatch.v1"] = Field(default="Dispatch.v1", alias="schema")
    operation_id: Identifier
    tenant: Name
    conversation: Name
    base_revision: Count
    generation: Generation
    relay: Count
    mode: Literal["send", "resume", "query", "replay"] = "send"
    manifest_digest: Digest
    request_digest: Digest
    idempotency_key: Identifier
    endpoint: Name
    owner: Identifier
    boot: Count
    replid: Identifier
    at_ms: Millis
