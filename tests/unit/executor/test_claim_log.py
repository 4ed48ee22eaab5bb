"""What a partition of answers tells of executions, and what a worker makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from turngate.executor.answers import Reply, claim_key, progress_reply, result_of
from turngate.executor.calls import Call, CallSettings
from turngate.executor.claims import CLOCK_SKEW_MS, KEEP_MS, ClaimLog, Followed, Standing
from turngate.executor.tools import Arguments, CallContext, ToolOutput
from turngate.schemas.codec import decode, encode
from turngate.schemas.digests import call_idempotency_key, call_key, text_digest
from turngate.schemas.tools import ReplyTo, SideEffects, ToolOrder, ToolProgress, ToolResult

NOW_MS = 1_800_000_000_000
ME = "tools/me"


def order_of(number: int, side_effects: SideEffects = "read") -> ToolOrder:
    key = call_key("acme", f"c{number}", 2, "a")
    return ToolOrder(
        tenant="acme", conversation=f"c{number}", call_key=key, call_id="a", tool="echo", revision=2, generation=1,
        attempt=1, arguments_digest=text_digest("{}"), idempotency_key=call_idempotency_key(key), arguments_raw="{}",
        schema_digest="0" * 64, operation_id="op", deadline_ms=NOW_MS + 60_000, side_effects=side_effects,
        reply_to=ReplyTo(topic="results", partition=0),
    )  # fmt: skip


def claim(number: int, executor: str) -> bytes:
    return progress_reply(order_of(number), "claimed", 0, executor=executor, source="test").value


def result(number: int, executor: str) -> bytes:
    return encode(result_of(order_of(number), ToolOutput(content="done"), executor=executor))


def record(offset: int, value: bytes, at_ms: int = NOW_MS) -> Any:
    return SimpleNamespace(offset=offset, value=value, timestamp=at_ms)


def test_the_first_record_about_an_execution_names_its_worker_and_any_result_ends_it() -> None:
    followed = Followed(0, 5)
    for entry in (
        record(4, claim(1, "tools/before")),
        record(5, claim(1, ME)),
        record(6, b"no record"),
        record(7, claim(1, "other/one")),
        record(8, result(2, "foreign")),
        record(9, claim(2, ME)),
    ):
        followed.note(entry, heard_s=entry.offset)
    assert followed.standings[claim_key(order_of(1))] == Standing(5, ME, False, 7, NOW_MS)
    assert followed.standings[claim_key(order_of(2))] == Standing(8, "foreign", True, 9, NOW_MS)
    followed.note(record(10, result(1, "other/one")), heard_s=10)
    assert followed.standings[claim_key(order_of(1))].answered
    assert followed.next_offset == 11


def test_what_is_old_is_forgotten_and_what_is_too_much_is_admitted() -> None:
    followed = Followed(0, 0)
    for number in range(4):
        followed.note(record(number, claim(number, ME), NOW_MS + number), heard_s=0)
    followed.forget(NOW_MS + 1, 10)
    assert (len(followed.standings), followed.since_ms, followed.lost_ms) == (3, NOW_MS + 1, -1)
    followed.forget(NOW_MS + 1, 1)
    assert (len(followed.standings), followed.since_ms, followed.lost_ms) == (1, NOW_MS + 1, NOW_MS + 2)


@dataclass
class Partition:
    """One partition as a consumer reads it; a call of `offsets_for_times` opens it."""

    records: list[Any]
    position: int = 0
    opened: int = 0

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.opened += 1
        (at, since_ms), *_ = times.items()
        found = [entry for entry in self.records if entry.timestamp >= since_ms]
        return {at: found[0] if found else None}

    def assignment(self) -> set[TopicPartition]:
        return {AT} if self.opened else set()

    def assign(self, places: list[TopicPartition]) -> None:
        assert places == [AT]

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.position = offset

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0)
        read, self.position = self.records[self.position :], len(self.records)
        return {AT: read} if read else {}


AT = TopicPartition("results", 0)


async def test_an_older_order_opens_the_partition_from_earlier_on() -> None:
    old_ms = NOW_MS - 2 * KEEP_MS
    dead = [record(0, claim(1, "tools/dead"), old_ms), record(1, claim(4, "tools/dead"), old_ms)]
    partition = Partition([*dead, record(2, claim(2, ME))])
    log = ClaimLog(cast(Any, partition))
    reading = asyncio.create_task(log.run())

    async def standing(number: int, offset: int, since_ms: int) -> Standing | None:
        async with asyncio.timeout(5):
            return await log.standing(claim_key(order_of(number)), AT, claimed_offset=offset, since_ms=since_ms)

    young = await standing(2, 2, NOW_MS)
    assert young is not None
    assert (young.offset, partition.opened) == (2, 1)
    partition.records.append(record(3, claim(1, ME)))
    found = await standing(1, 3, old_ms)
    assert found is not None
    assert (found.offset, found.executor, partition.opened) == (0, "tools/dead", 2)
    assert await standing(2, 2, NOW_MS) is not None
    assert partition.opened == 2
    partition.records.append(record(4, claim(3, ME)))
    assert await standing(3, 4, NOW_MS) is not None
    partition.records.append(record(5, claim(4, ME)))
    again = await standing(4, 5, old_ms)
    assert again is not None
    assert again.executor == "tools/dead", "forgotten meanwhile, and read again"
    assert partition.opened == 3
    reading.cancel()


@dataclass
class Log:
    """Answers what it is told; quiet_s: how long nothing was heard."""

    says: Standing | None
    quiet: float = 0.0
    since_ms: int = -1

    async def standing(self, key: str, at: TopicPartition, *, claimed_offset: int, since_ms: int) -> Standing | None:
        self.since_ms = since_ms
        return self.says

    def quiet_s(self, standing: Standing) -> float:
        return self.quiet


async def executes(log: Log, side_effects: SideEffects, *, claimed_ms: int = NOW_MS, ordered_ms: int = NOW_MS) -> bool:
    executed: list[str] = []
    written: list[ToolResult | ToolProgress] = []

    async def tool(args: Arguments, ctx: CallContext) -> str:
        executed.append(ctx.order.call_key)
        return "done"

    async def send(reply: Reply) -> Any:
        kind = ToolResult if b"ToolResult.v1" in reply.value else ToolProgress
        written.append(decode(kind, reply.value))
        return SimpleNamespace(offset=7, timestamp=claimed_ms)

    call = Call(
        order_of(1, side_effects), tool, ordered_ms=ordered_ms, claims=cast(ClaimLog, log), send=send,
        settings=CallSettings(group="tools", executor=ME, source="test", poll_s=0.001), now_ms=lambda: NOW_MS,
    )  # fmt: skip
    async with asyncio.timeout(5):
        await call.run()
    assert [type(entry) for entry in written] == [ToolProgress] + [ToolResult] * len(executed)
    return bool(executed)


def standing(offset: int, executor: str, *, answered: bool = False) -> Standing:
    return Standing(offset, executor, answered, 0.0, NOW_MS)


@pytest.mark.parametrize(
    ("says", "quiet", "repeatable", "once"),
    [
        (standing(7, ME), 0.0, True, True),
        (standing(7, ME, answered=True), 0.0, True, True),
        (standing(6, ME), 0.0, True, False),
        (standing(6, "tools/dead"), 0.0, True, False),
        (standing(6, "tools/dead", answered=True), 99.0, False, False),
        (standing(6, "other/dead"), 99.0, True, False),
        (standing(6, "other/alive", answered=True), 0.0, False, False),
        (None, 0.0, True, False),
    ],
)
async def test_who_was_first_executes_and_only_what_may_be_repeated_is_taken_over(
    says: Standing | None, quiet: float, repeatable: bool, once: bool
) -> None:
    assert await executes(Log(says, quiet), "read") is repeatable
    assert await executes(Log(says, quiet), "idempotent") is repeatable
    assert await executes(Log(says, quiet), "at_most_once") is once
    assert await executes(Log(says, quiet), "compensatable") is once


async def test_a_clock_too_far_behind_proves_nothing() -> None:
    mine = standing(7, ME)
    assert not await executes(Log(mine), "at_most_once", claimed_ms=NOW_MS - CLOCK_SKEW_MS - 1)
    assert await executes(Log(mine), "read", claimed_ms=NOW_MS - CLOCK_SKEW_MS - 1)
    assert await executes(Log(mine), "at_most_once", claimed_ms=NOW_MS - CLOCK_SKEW_MS)
    log = Log(mine)
    await executes(log, "read", ordered_ms=NOW_MS + 3_600_000)
    assert log.since_ms == NOW_MS - CLOCK_SKEW_MS, "an order from the future is looked for from now"
