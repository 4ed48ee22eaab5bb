"""Who executes what: the memory that keeps a redelivered order from being executed twice."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Claimed:
    """The execution is this owner's."""


@dataclass(frozen=True, slots=True)
class Held:
    """Another owner claimed it and has not answered."""


@dataclass(frozen=True, slots=True)
class Answered:
    """It was executed; `result` is the stored ToolResult record."""

    result: bytes


Claim: TypeAlias = Claimed | Held | Answered


class ClaimStore(Protocol):
    """A claim per execution. Keys are opaque; an implementation raises whatever makes it unavailable.

    durable: whether claims outlive this process. Without that the worker gives up an order that must not be
    executed twice (at_most_once, compensatable) to Kafka before it executes it.
    """

    @property
    def durable(self) -> bool: ...

    async def claim(self, key: str, *, owner: str, lease_ms: int | None) -> Claim:
        """Claim, or learn who was first. lease_ms: how long the claim holds unrenewed; None: for good."""
        ...

    async def renew(self, key: str, *, owner: str, lease_ms: int) -> bool:
        """Hold a claim for longer; False where it is no longer this owner's."""
        ...

    async def answer(self, key: str, result: bytes) -> bytes:
        """Store the result; returns the stored one, which is another's where that came first."""
        ...


class MemoryClaimStore:
    """Claims of this process alone. Remembers the last `results_max` results; claims end with the process."""

    durable = False

    def __init__(self, results_max: int = 10_000) -> None:
        self._results_max = results_max
        self._owners: dict[str, str] = {}
        self._results: OrderedDict[str, bytes] = OrderedDict()

    async def claim(self, key: str, *, owner: str, lease_ms: int | None) -> Claim:
        stored = self._results.get(key)
        if stored is not None:
            self._results.move_to_end(key)
            return Answered(stored)
        return Claimed() if self._owners.setdefault(key, owner) == owner else Held()

    async def renew(self, key: str, *, owner: str, lease_ms: int) -> bool:
        return self._owners.get(key) == owner

    async def answer(self, key: str, result: bytes) -> bytes:
        self._owners.pop(key, None)
        stored = self._results.setdefault(key, result)
        while len(self._results) > self._results_max:
            self._results.popitem(last=False)
        return stored
