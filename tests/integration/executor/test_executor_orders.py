"""What a tool executor makes of each kind of order, on a broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from turngate.executor import Arguments, CallContext, ToolError, ToolOutput
from turngate.schemas.tools import ToolCancel, ToolOrder
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

IDENTITY = (
    "tenant", "conversation", "call_key", "call_id", "tool", "revision", "generation", "attempt", "arguments_digest",
    "idempotency_key",
)  # fmt: skip
SECRET = "what a user wrote"


class Echo:
    """A tool that counts its executions, and ends at once, or when it is let go."""

    def __init__(self, *, held: bool = False) -> None:
        self.started: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.go = asyncio.Event()
        if not held:
            self.go.set()

    async def __call__(self, args: Arguments, ctx: CallContext) -> str:
        self.started[ctx.order.call_key] += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(ctx.order.call_key)
            raise
        return f"{args.get('city', 'nowhere')} {ctx.order.attempt}"


def cancel_of(order: ToolOrder) -> ToolCancel:
    fields = {name: getattr(order, name) for name in IDENTITY}
    return ToolCancel(**fields, reason="cancelled")


async def test_each_order_is_executed_once_and_answered_where_it_asks(desk: Any, wait: Any) -> None:
    echo = Echo()
    executor = desk.executor()
    executor.tool("echo")(echo)
    orders = [desk.order(number, arguments=f'{{"city":"Bergen {number}"}}') for number in range(12)]
    strange = desk.order(99, tool="somebody-elses")
    await desk.send(*orders[:6], strange)
    async with desk.working(executor):
        await desk.send(*orders[6:])
        await wait(lambda: len(desk.results()) >= len(orders))
    assert echo.started == Counter({order.call_key: 1 for order in orders})
    assert len(desk.results()) == len(orders), "nothing of another executor's tool"
    for order in orders:
        (place,) = [at for at, record in desk.answers if record == desk.result(order)]
        assert place == order.reply_to.partition
        assert place != partition_of(f"acme/{order.conversation}".encode(), 4), "the test asks for another one"
        result = desk.result(order)
        assert {name: getattr(result, name) for name in IDENTITY} == {name: getattr(order, name) for name in IDENTITY}
        assert (result.status, result.content) == ("success", f"Bergen {order.conversation[1:]} 1")
        assert [record.progress for record in desk.progress(order)] == ["claimed"]
    assert sum(at for at in (await desk.committed()).values() if at > 0) == len(orders) + 1


async def test_an_order_delivered_again_is_neither_executed_nor_answered_again(desk: Any, wait: Any) -> None:
    echo = Echo(held=True)
    executor = desk.executor()
    executor.tool("echo")(echo)
    order, further = desk.order(1, arguments='{"city":"Bergen"}'), desk.order(1, arguments='{"city":"Oslo"}', attempt=2)
    async with desk.working(executor):
        await desk.send(order, order)
        await wait(lambda: bool(echo.started))
        await desk.send(order)
        echo.go.set()
        await wait(lambda: len(desk.results()) >= 1)
        await desk.send(order)
        await wait(lambda: len(desk.progress(order)) >= 2)
        assert echo.started[order.call_key] == 1
        await desk.send(further)
        await wait(lambda: desk.result(further) is not None)
    assert echo.started[order.call_key] == 2, "a further attempt is another execution"
    first = [result for result in desk.results() if result.attempt == 1]
    assert [result.content for result in first] == ["Bergen 1"]
    assert desk.result(further).content == "Oslo 2"
    assert desk.result(further).result_id != first[0].result_id


async def test_whatever_goes_wrong_in_a_tool_settles_its_call_as_an_error(desk: Any, wait: Any) -> None:
    executor = desk.executor()

    @executor.tool("says")
    async def says(args: Arguments, ctx: CallContext) -> str:
        raise ToolError("there is no such city", reason="no_such_city")

    @executor.tool("breaks")
    async def breaks(args: Arguments, ctx: CallContext) -> str:
        raise ValueError(SECRET)

    @executor.tool("large")
    async def large(args: Arguments, ctx: CallContext) -> str:
        return "x" * TOPICS["tool-results"].bytes_max

    @executor.tool("gives-up")
    async def gives_up(args: Arguments, ctx: CallContext) -> ToolOutput:
        return ToolOutput(content="not today", status="error", reason="busy")

    @executor.tool("forgets")
    async def forgets(args: Arguments, ctx: CallContext) -> Any:
        return None

    @executor.tool("halves")
    async def halves(args: Arguments, ctx: CallContext) -> str:
        return "\ud800"

    @executor.tool("exits")
    async def exits(args: Arguments, ctx: CallContext) -> str:
        raise SystemExit(3)

    executor.tool("echo")(Echo())
    changed = desk.order(7).model_copy(update={"arguments_raw": '{"city":"Oslo"}'})
    expected = {
        desk.order(1, tool="says"): ("no_such_city", "there is no such city"),
        desk.order(2, tool="breaks"): ("handler_error", "breaks failed: ValueError"),
        desk.order(3, tool="large"): ("too_large", "the output of large is larger than a result may be"),
        desk.order(4, tool="gives-up"): ("busy", "not today"),
        desk.order(8, tool="forgets"): ("handler_error", "forgets failed: what it returned is not text"),
        desk.order(9, tool="halves"): ("handler_error", "halves failed: what it returned is not text"),
        desk.order(10, tool="exits"): ("handler_error", "exits failed: SystemExit"),
        desk.order(5, arguments="[1]"): ("invalid_arguments", "the arguments are not a JSON object"),
        desk.order(6, arguments='{"a":1,"a":2}'): ("invalid_arguments", "the arguments are not strict JSON"),
        changed: ("arguments_mismatch", "the arguments are not the ones that were committed"),
    }
    async with desk.working(executor):
        await desk.send(*expected)
        await wait(lambda: len(desk.results()) >= len(expected))
    found = {order: desk.result(order) for order in expected}
    assert {order: (result.reason, result.content) for order, result in found.items()} == expected
    assert {result.status for result in found.values()} == {"error"}


async def test_a_cancelled_order_is_stopped_or_never_begun(desk: Any, wait: Any) -> None:
    echo = Echo(held=True)
    executor = desk.executor()
    executor.tool("echo")(echo)
    running, waiting, beside = desk.order(1), desk.order(2), desk.order(3)
    async with desk.working(executor):
        await desk.send(running, beside)
        await wait(lambda: len(echo.started) == 2)
        await desk.send(cancel_of(running))
        await wait(lambda: echo.cancelled == [running.call_key])
        await desk.send(cancel_of(waiting), waiting, running)
        echo.go.set()
        await wait(lambda: desk.result(beside) is not None)
        fence = [desk.order(number) for number in range(10, 26)]
        await desk.send(*fence)
        await wait(lambda: all(desk.result(order) is not None for order in fence))
    assert {order.reply_to.partition for order in fence} == set(range(4)), "whatever was written before was read"
    assert echo.started[running.call_key] == 1
    assert waiting.call_key not in echo.started
    assert [desk.result(running), desk.result(waiting)] == [None, None], "the ledger has settled them"


async def test_past_its_deadline_an_order_is_not_begun_and_a_running_one_ends(desk: Any, wait: Any) -> None:
    echo = Echo(held=True)
    executor = desk.executor()
    executor.tool("echo")(echo)
    late, forgotten = desk.order(1, deadline_in_ms=-1_000), desk.order(2, deadline_in_ms=-3_600_000)
    short = desk.order(3, deadline_in_ms=1_500)
    await desk.send(forgotten, late)
    async with desk.working(executor):
        await wait(lambda: desk.result(late) is not None)
        short = desk.order(3, deadline_in_ms=1_500)
        await desk.send(short)
        await wait(lambda: desk.result(short) is not None)
    assert set(echo.started) == {short.call_key}
    assert echo.cancelled == [short.call_key]
    for order in (late, short):
        assert (desk.result(order).status, desk.result(order).reason) == ("error", "deadline")
    assert desk.result(forgotten) is None, "long ago the ledger's: nobody waits for it"
    assert sum(at for at in (await desk.committed()).values() if at > 0) == 3


async def test_a_slow_tool_shows_that_it_lives_and_what_it_does(desk: Any, wait: Any) -> None:
    executor = desk.executor(heartbeat_s=0.05)
    go = asyncio.Event()

    @executor.tool("slow")
    async def slow(args: Arguments, ctx: CallContext) -> str:
        await ctx.progress("half of it")
        await go.wait()
        return "all of it"

    order = desk.order(1, tool="slow")

    def kinds() -> Counter[str]:
        return Counter(record.progress for record in desk.progress(order))

    async with desk.working(executor):
        await desk.send(order)
        await wait(lambda: kinds()["heartbeat"] >= 3)
        assert desk.result(order) is None
        go.set()
        await wait(lambda: desk.result(order) is not None)
    progress = desk.progress(order)
    assert progress[0].progress == "claimed"
    assert [record.seq for record in progress] == list(range(len(progress)))
    assert [record.content for record in progress if record.progress == "output"] == ["half of it"]
    assert {record.executor for record in progress} == {desk.result(order).executor}
    assert desk.result(order).content == "all of it"
