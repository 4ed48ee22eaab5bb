"""A member that the leader of its group leaves out gets no assignment at all. aiokafka ends its membership over that;
the worker joins again, for as long as it takes, and goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import InconsistentGroupProtocolError, InvalidSessionTimeoutError, KafkaError

from turngate.runtime.consumer import rejoin
from turngate.schemas.errors import ConfigurationError

pytestmark = pytest.mark.kafka


class Stingy(RangePartitionAssignor):
    """Leaves out everybody but the leader itself while `alone` is set."""

    alone: ClassVar[bool] = True
    me: ClassVar[str] = ""

    @classmethod
    def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        if not cls.alone:
            return super().assign(cluster, members)
        cls.me = cls.me or next(iter(members))
        return super().assign(cluster, {cls.me: members[cls.me]})


@asynccontextmanager
async def leader(lab: Any, *, alone: bool) -> AsyncGenerator[AIOKafkaConsumer]:
    """First in the group of the lab's role, so it leads it."""
    Stingy.alone, Stingy.me = alone, ""
    consumer = AIOKafkaConsumer(
        *(lab.full(name) for name in lab.role.inputs), bootstrap_servers=lab.stack.kafka_bootstrap,
        group_id=lab.role.group(lab.prefix), enable_auto_commit=False, session_timeout_ms=6_000,
        heartbeat_interval_ms=200, partition_assignment_strategy=(Stingy,),
    )  # fmt: skip
    await consumer.start()
    Stingy.me = getattr(consumer, "_coordinator").member_id  # noqa: B009
    try:
        yield consumer
    finally:
        await consumer.stop()


async def test_a_worker_left_out_at_its_start_waits_and_joins(
    lab: Any, echo: Any, wait: Any, key_on: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = lab.worker(lambda _: echo())
    async with leader(lab, alone=True):
        task = asyncio.create_task(worker.run())
        await wait(lambda: sum("coordinator routine" in record.message for record in caplog.records) >= 2)
        assert not task.done()
        assert not worker.ready
    try:
        await wait(lambda: worker.ready or task.done())
        await lab.produce("turn-requests", [(key_on(number), b"{}", None) for number in range(4)])
        await answered(lab, 4)
    finally:
        worker.request_stop()
        await task


async def test_a_worker_left_out_later_joins_again_and_goes_on(
    lab: Any, echo: Any, wait: Any, key_on: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = lab.worker(lambda _: echo())
    async with leader(lab, alone=False) as fellow, lab.running(worker):
        assert len(worker.statistics().partitions) == 2
        number = worker.statistics().partitions[0]
        await lab.produce("turn-requests", [(key_on(number), b"{}", None)])
        await answered(lab, 1)
        Stingy.alone = True
        rejoin(fellow)
        await wait(lambda: any("coordinator routine" in record.message for record in caplog.records))
        await wait(lambda: not worker.ready)
        Stingy.alone = False
        await wait(lambda: worker.ready)
        await fellow.stop()
        await wait(lambda: worker.ready and len(worker.statistics().partitions) == 4)
        await lab.produce("turn-requests", [(key_on(partition), b"{}", None) for partition in range(4)])
        await answered(lab, 5)


async def answered(lab: Any, count: int) -> None:
    """So many verdicts, each for a record of its own."""
    async with asyncio.timeout(30):
        while len(found := await lab.values("verdicts")) < count:
            await asyncio.sleep(0.1)
    assert len(found) == len(set(found)) == count


@pytest.mark.parametrize(
    ("error", "said"),
    [(InvalidSessionTimeoutError(), "TURNGATE_SESSION_TIMEOUT_MS"), (InconsistentGroupProtocolError(), "another kind")],
)
async def test_what_no_repetition_mends_is_said(
    lab: Any, echo: Any, monkeypatch: pytest.MonkeyPatch, error: KafkaError, said: str
) -> None:
    async def refused(_: object) -> None:
        raise error

    monkeypatch.setattr(AIOKafkaConsumer, "start", refused)
    with pytest.raises(ConfigurationError, match=said):
        await lab.worker(lambda _: echo()).run()
