"""The seam between the runtime and a role: one handler per partition number, made at take-over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turngate.runtime.records import InputRecord, Position, StepResult


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """A take-over. term grows with every take-over of the partition; positions (per logical input topic) are
    what was committed, read after the predecessor was fenced.
    """

    partition: int
    term: int
    positions: dict[str, Position]


class PartitionHandler(Protocol):
    """A role's work on one partition number. Calls never overlap; handlers of other partitions run beside it.

    `start` and `step` may raise Retryable (called again with the same arguments), LostFence (the partition is
    dropped) and `step` also Poison; after any other error `step` is called again with parts of the same
    records, so it must be idempotent.
    """

    async def start(self, start: PartitionStart) -> None: ...

    async def step(self, records: Sequence[InputRecord]) -> StepResult: ...

    async def stop(self) -> None: ...
