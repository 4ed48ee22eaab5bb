"""The gauge of open streams is the process's: the sum over its partitions."""

from __future__ import annotations

from typing import Any, cast

from turngate.reassembler.service import ReassemblerDeps, ReassemblerHandler
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import Position


async def test_partitions_add_up_and_one_that_stops_takes_only_its_own_away() -> None:
    metrics = Metrics()
    deps = ReassemblerDeps(cast(Any, None), cast(Any, None), metrics, cast(Any, None))
    first, second = ReassemblerHandler(deps), ReassemblerHandler(deps)

    def holds(handler: ReassemblerHandler, number: int) -> float:
        """What the gauge says once a handler holds this many streams."""
        handler._streams = cast(Any, range(number))
        handler._count_open()
        return float(metrics.open_streams._value.get())

    assert [holds(first, 3), holds(second, 4), holds(first, 1)] == [3, 7, 5]
    await second.stop()
    assert metrics.open_streams._value.get() == 1
    await first.start(PartitionStart(partition=0, term=1, positions={"stream-events": Position(5, "")}))
    assert metrics.open_streams._value.get() == 0
