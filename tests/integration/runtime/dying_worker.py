"""A worker process of the tests: one record, one verdict; a record `die` takes the whole process with it, by SIGKILL.

Settings as for any role (TURNGATE_*).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from turngate.runtime.app import RoleContext, WorkerParts, run_worker
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.records import InputRecord, Output, StepResult
from turngate.runtime.redis.client import open_redis

ROLE = "validator"


class Dying:
    """Answers each record with its own value, unless that is `die`."""

    async def start(self, start: PartitionStart) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        if any(record.value == b"die" for record in records):
            os.kill(os.getpid(), signal.SIGKILL)
        return StepResult([Output("verdicts", record.key or b"", record.value or b"") for record in records])

    async def stop(self) -> None:
        return None


@asynccontextmanager
async def parts(context: RoleContext) -> AsyncGenerator[WorkerParts]:
    async with open_redis(context) as redis:
        yield WorkerParts(handler_factory=lambda partition: Dying(), takeover_counter=redis.takeovers)


if __name__ == "__main__":
    sys.exit(asyncio.run(run_worker(ROLE, parts)))
