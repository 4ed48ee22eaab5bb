"""Every digest of the protocol (sha256, lowercase hex), in one module.

Content and arguments are digested over the exact bytes received; our own records over their canonical bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from turngate.schemas.codec import canonical_bytes, flat_bytes

SEMANTIC_HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that change what a request means; credentials, dates and retry counters do not."""

EMPTY_HISTORY = "0" * 64
"""The history digest before the first turn of a chain."""


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Digest of content over its UTF-8 bytes. Raises UnicodeEncodeError on a lone surrogate."""
    return sha256_hex(text.encode("utf-8"))


def record_digest(value: object) -> str:
    """Digest of one of our own values over its canonical bytes."""
    return sha256_hex(canonical_bytes(value))


def parts_digest(*parts: str | int) -> str:
    """H(a, b, ...): unambiguous, since the parts are digested as one canonical JSON array."""
    return sha256_hex(flat_bytes(parts))


def operation_id(tenant: str, conversation: str, base_revision: int, request_id: str) -> str:
    """operationId = H(tenant, conversation, baseRevision, requestId), DESIGN §2."""
    return "op-" + parts_digest(tenant, conversation, base_revision, request_id)[:40]


def idempotency_key(operation: str, generation: int) -> str:
    """H(operationId, generation): the key one generation's bytes go out under."""
    return parts_digest(operation, generation)[:40]


def call_key(tenant: str, conversation: str, revision: int, call_id: str) -> str:
    """callKey = tenant/conversation/revision/callId (DESIGN §8); revision is the assistant turn's."""
    return f"{tenant}/{conversation}/{revision}/{call_id}"


def call_idempotency_key(key: str) -> str:
    """The key under which every execution of a call runs: the same for all its attempts."""
    return parts_digest("call", key)[:40]


def history_digest(previous: str, block_digests: Iterable[str]) -> str:
    """The hash chain over block digests: each turn extends it, so a long history is never digested twice."""
    running = previous
    for digest in block_digests:
        running = sha256_hex(f"{running}{digest}".encode("ascii"))
    return running


def request_digest(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> str:
    """What the manifest names: method, path with query, exact body bytes and the semantic headers."""
    semantic = {name.lower(): value for name, value in headers.items() if name.lower() in SEMANTIC_HEADERS}
    return record_digest({"method": method.upper(), "path": path, "bodySha256": sha256_hex(body), "headers": semantic})
