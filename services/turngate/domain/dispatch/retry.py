"""The retry ladder (DESIGN §6): at most 5 retries, exponential with jitter, Retry-After honoured, never by hope.

Jitter is drawn from the operation id and the generation, so a redo of the same outcome gives the same due time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

RetryClass = Literal["none", "policy", "never", "ladder"]
"""What the gate says: `none` committed or unknown, `never` the same bytes give the same answer, `policy` only where the
tenant retries blocked turns, `ladder` after evidence."""

NEVER_CLASSES = frozenset({"auth", "invalid_request", "quota"})
"""HTTP error classes after which the same bytes fail again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry settings. base_ms doubles up to ceiling_ms; retries_max counts the retries after the first attempt."""

    base_ms: int = 2_000
    ceiling_ms: int = 30_000
    retries_max: int = 5
    retry_blocked: bool = False
    retry_after_max_ms: int = 120_000


def retry_delay_ms(
    policy: RetryPolicy,
    retry: RetryClass,
    *,
    operation: str,
    generation: int,
    error_class: str | None = None,
    retry_after_ms: int | None = None,
) -> int | None:
    """When the next generation is due, in ms from now, or None where none follows.

    generation is the one that just ended, from 1; its retry is number `generation`.
    """
    if retry in ("none", "never") or error_class in NEVER_CLASSES:
        return None
    if retry == "policy" and not policy.retry_blocked:
        return None
    if generation > policy.retries_max:
        return None
    if retry_after_ms is not None and retry_after_ms > policy.retry_after_max_ms:
        return None
    full = min(policy.ceiling_ms, policy.base_ms * 2 ** (generation - 1))
    draw = int.from_bytes(hashlib.sha256(f"{operation}/{generation}".encode()).digest()[:4], "big") / 2**32
    return max(int(full * (0.5 + draw / 2)), retry_after_ms or 0)
