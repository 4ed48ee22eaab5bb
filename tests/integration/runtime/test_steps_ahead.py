"""A role that allows it has its next batch stepped while the transaction of the one before is being committed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiokafka import TopicPartition

from turngate.runtime.errors import LostFence
from turngate.runtime.producer import TransactionalProducer
from turngate.runtime.records import InputRecord, Position, StepResult

pytestmark = pytest.mark.kafka


class Commits:
    """Stands before every commit: it can hold one back, and lose one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.losing = False
        self.begun = self.ended = 0
        real = TransactionalProducer.commit

        async def commit(
            producer: TransactionalProducer, group: str, offsets: Mapping[TopicPartition, Position]
        ) -> None:
            assert self.begun == self.ended, "one transaction at a time"
            self.begun += 1
            try:
                await self.open.wait()
                if self.losing:
                    self.losing = False
                    raise LostFence("taken away", code="fenced")
                await real(producer, group, offsets)
            finally:
                self.ended += 1

        monkeypatch.setattr(TransactionalProducer, "commit", commit)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    return Commits(monkeypatch)


@pytest.fixture
def ahead(echo: Any) -> Any:
    class Ahead(echo):  # type: ignore[misc]
        async def step(self, records: Sequence[InputRecord]) -> StepResult:
            result = await super().step(records)
            result.ahead = True
            return result

    return Ahead


def offsets(handler: Any) -> list[int]:
    return [record.offset for step in handler.steps for record in step]


async def test_the_next_batch_is_stepped_meanwhile_and_written_after(
    lab: Any, ahead: Any, wait: Any, key_on: Any, commits: Commits
) -> None:
    handlers = {number: ahead() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)):
        commits.open.clear()
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: commits.begun == 1)
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: offsets(handlers[0]) == [0, 1])
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        written = [record.value for record in await lab.read("verdicts", "read_uncommitted")]
        assert set(written) <= {b"turn-requests/0@0"}
        assert offsets(handlers[0]) == [0, 1], "no further ahead than one batch"
        commits.open.set()
        await wait(lambda: offsets(handlers[0]) == [0, 1, 2])
    assert await lab.values("verdicts") == [f"turn-requests/0@{offset}".encode() for offset in range(3)]
    assert (await lab.committed("turn-requests", 0)).offset == 3


async def test_other_roles_wait_for_their_commit(lab: Any, echo: Any, wait: Any, key_on: Any, commits: Commits) -> None:
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)) as worker:
        commits.open.clear()
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: commits.begun == 1)
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: worker.statistics().queued == 1)
        assert offsets(handlers[0]) == [0]
        commits.open.set()
        await wait(lambda: offsets(handlers[0]) == [0, 1])


@pytest.mark.parametrize("more", [0, 5])
async def test_a_lost_commit_is_noticed_and_all_since_is_done_again(
    lab: Any, ahead: Any, wait: Any, key_on: Any, commits: Commits, more: int
) -> None:
    """With records stepped ahead of it, and without any record that would make somebody look."""
    made: list[Any] = []

    def factory(number: int) -> Any:
        handler = ahead()
        if number == 0:
            made.append(handler)
        return handler

    async with lab.running(lab.worker(factory)) as worker:
        commits.open.clear()
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: commits.begun == 1)
        await lab.produce("turn-requests", [(key_on(0), b"{}", None) for _ in range(more)])
        await wait(lambda: len(offsets(made[0])) > (1 if more else 0))
        commits.losing = True
        commits.open.set()
        await wait(lambda: worker.statistics().lost == 1)
        await wait(lambda: len(made) == 2 and len(offsets(made[1])) == 1 + more)
    assert await lab.values("verdicts") == [f"turn-requests/0@{offset}".encode() for offset in range(1 + more)]
    assert (await lab.committed("turn-requests", 0)).offset == 1 + more


async def test_a_worker_that_stops_ends_the_commit_first(
    lab: Any, ahead: Any, wait: Any, key_on: Any, commits: Commits
) -> None:
    handlers = {number: ahead() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)) as worker:
        commits.open.clear()
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: commits.begun == 1)
        worker.request_stop()
        asyncio.get_running_loop().call_later(0.3, commits.open.set)
    assert commits.ended == 1
    assert await lab.values("verdicts") == [b"turn-requests/0@0"]
    assert (await lab.committed("turn-requests", 0)).offset == 1
