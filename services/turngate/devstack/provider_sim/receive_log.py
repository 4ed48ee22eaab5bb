"""The receive log: what really arrived at a provider. One JSON line a request, on disk before the first answer byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson

from turngate.schemas.digests import request_digest, sha256_hex


class ReceiveLog:
    """Appends lines; never content, never a credential."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, endpoint: str, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """One line. `path` is as the provider sees it: without the simulator's prefix."""
        if self._file is None:
            return
        generation = headers.get("X-Turngate-Generation", "")
        line = {
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
            "endpoint": endpoint,
            "method": method,
            "path": path,
            "bodySha256": sha256_hex(body),
            "requestDigest": request_digest(method, path, body, headers),
            "idempotencyKey": headers.get("Idempotency-Key"),
            "operation": headers.get("X-Turngate-Operation"),
            "attemptGeneration": int(generation) if generation.isdigit() else None,
            "length": len(body),
        }
        os.write(self._file, orjson.dumps(line) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
