"""A worker process of the tests: one record, one verdict that names the instance.

Settings as for any role (TURNGATE_*). With `stop` as its argument it stops itself by SIGSTOP once, with the outputs of
its first transaction on the broker and the transaction open.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import TopicPartition

from turngate.runtime.app import RoleContext, WorkerParts, run_worker
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.logging import get_log
from turngate.runtime.producer import TransactionalProducer
from turngate.runtime.records import InputRecord, Output, Position, StepResult

ROLE = "validator"


class Naming:
    """Answers each record with `<instance> <the record's value>`."""

    def __init__(self, instance: str) -> None:
        self._instance = instance.encode()

    async def start(self, start: PartitionStart) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        names = [self._instance + b" " + (record.value or b"") for record in records]
        named = zip(records, names, strict=True)
        return StepResult([Output("verdicts", record.key or b"", name) for record, name in named])

    async def stop(self) -> None:
        return None


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    yield WorkerParts(handler_factory=lambda partition: Naming(context.settings.instance_id))


def stop_before_the_first_commit() -> None:
    commit = TransactionalProducer.commit

    async def stopping(self: TransactionalProducer, group: str, offsets: Mapping[TopicPartition, Position]) -> None:
        TransactionalProducer.commit = commit  # type: ignore[method-assign]
        await asyncio.gather(*self._deliveries)
        get_log().info("stopping")
        os.kill(os.getpid(), signal.SIGSTOP)
        await commit(self, group, offsets)

    TransactionalProducer.commit = stopping  # type: ignore[method-assign]


if __name__ == "__main__":
    if sys.argv[1:] == ["stop"]:
        stop_before_the_first_commit()
    sys.exit(asyncio.run(run_worker(ROLE, parts)))
