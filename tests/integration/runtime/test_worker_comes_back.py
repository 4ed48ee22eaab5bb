"""A partition that comes back to the same worker after a rebalance goes on where it was, not where it has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from turngate.runtime.handlers import PartitionStart
from turngate.runtime.offsets import GroupOffsets
from turngate.runtime.records import InputRecord, Output, Position, StepResult

pytestmark = pytest.mark.kafka

SLOW_READ_SECONDS = 1.0


class Watermark:
    """Answers every record once and needs the first one for ever, as an open stream does."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def start(self, start: PartitionStart) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        self.seen += [record.offset for record in records]
        outputs = [Output("verdicts", record.key or b"", str(record.offset).encode()) for record in records]
        highest = max(self.seen)
        return StepResult(outputs, positions={"turn-requests": Position(0, str(highest + 1))})

    async def stop(self) -> None:
        return None


async def test_what_lies_behind_the_watermark_is_not_stepped_again(
    lab: Any, wait: Any, key_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = {number: Watermark() for number in range(4)}
    worker = lab.worker(handlers.__getitem__)
    read = GroupOffsets.read

    looked: list[object] = []

    async def slow(self: GroupOffsets, *args: Any) -> Any:
        await asyncio.sleep(SLOW_READ_SECONDS)
        looked.append(args)
        return await read(self, *args)

    async with lab.running(worker):
        await lab.produce("turn-requests", [(key_on(1), b"{}", None) for _ in range(20)])
        await wait(lambda: len(handlers[1].seen) == 20)
        takeovers = worker.statistics().takeovers
        # Between the assignment and the moment the runner is known to come back, there is time to fetch.
        monkeypatch.setattr(GroupOffsets, "read", slow)
        worker._member.rejoin()
        await wait(lambda: len(looked) >= 4)
        await lab.produce("turn-requests", [(key_on(1), b"{}", None)])
        await wait(lambda: 20 in handlers[1].seen)
        assert worker.statistics().takeovers == takeovers, "the runner came back"
    assert handlers[1].seen == list(range(21))
    assert sorted(await lab.values("verdicts"), key=lambda value: int(value or b"-1")) == [
        str(n).encode() for n in range(21)
    ]
