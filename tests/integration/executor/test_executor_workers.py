"""Workers that come, go and die: no order is lost, and none that must not be repeated is executed twice."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from turngate.devstack.supervisor import ProcessSpec, Supervisor
from turngate.executor import Arguments, CallContext

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).with_name("waiting_tools.py")
GROUP = "tools"


class Tools:
    """A process of the test: its tool waits for the file `go`."""

    def __init__(self, desk: Any, folder: Path) -> None:
        self.notes = folder / "notes"
        self.go = folder / "go"
        env = {
            "TURNGATE_KAFKA": desk.stack.kafka_bootstrap, "TURNGATE_TOPIC_PREFIX": desk.prefix,
            "TURNGATE_EXECUTOR_INSTANCE_ID": "tools-0",
        }  # fmt: skip
        argv = (sys.executable, str(PROGRAM), GROUP, str(self.notes), str(self.go))
        self.spec = ProcessSpec("tools", argv, folder / "tools.log", env)

    def starts(self) -> list[tuple[int, str]]:
        """(process id, call key) of every execution begun."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines if line.count(" ") == 1]


async def test_sigterm_lets_what_runs_end_and_answers_it(desk: Any, wait: Any, tmp_path: Path) -> None:
    tools = Tools(desk, tmp_path)
    order = desk.order(1, tool="wait")
    async with Supervisor() as supervisor:
        supervisor.start(tools.spec)
        await desk.send(order)
        await wait(lambda: bool(tools.starts()))
        pid = supervisor.pid("tools")
        supervisor.send("tools", signal.SIGTERM)
        assert desk.result(order) is None
        tools.go.touch()
        assert await supervisor.wait_exit("tools", timeout_seconds=60) == 0
    said = (tmp_path / "tools.log").read_text()
    assert f"{desk.prefix}.executor.{GROUP} (wait)" in said
    assert "is ready" in said
    await wait(lambda: desk.result(order) is not None)
    assert desk.result(order).content == f"done by {pid}"
    assert tools.starts() == [(pid, order.call_key)]
    assert 1 in (await desk.committed()).values(), "it is not delivered again"


async def test_a_killed_worker_under_the_same_name_does_its_orders_again(desk: Any, wait: Any, tmp_path: Path) -> None:
    tools = Tools(desk, tmp_path)
    orders = [desk.order(number, tool="wait") for number in range(8)]
    once = desk.order(20, tool="wait", side_effects="at_most_once")
    async with Supervisor() as supervisor:
        supervisor.start(tools.spec)
        await desk.send(once, *orders)  # first of its partition: it is given up before it is executed
        await wait(lambda: len(tools.starts()) == len(orders) + 1)
        first = supervisor.pid("tools")
        await supervisor.kill("tools", signal.SIGKILL)
        await supervisor.restart("tools")
        second = supervisor.pid("tools")
        await wait(lambda: sum(pid == second for pid, _ in tools.starts()) == len(orders))
        tools.go.touch()
        await wait(lambda: all(desk.result(order) is not None for order in orders))
    assert {desk.result(order).content for order in orders} == {f"done by {second}"}
    assert (first, once.call_key) in tools.starts()
    assert (second, once.call_key) not in tools.starts(), "nobody knows whether it was executed: the ledger's to hold"
    assert desk.result(once) is None


async def test_what_outlasts_the_drain_is_done_by_the_next_worker(desk: Any, wait: Any) -> None:
    order = desk.order(1)
    executed: list[str] = []

    def executor(name: str, *, held: bool) -> Any:
        made = desk.executor(drain_s=0.2)

        @made.tool("echo")
        async def echo(args: Arguments, ctx: CallContext) -> str:
            executed.append(name)
            if held:
                await asyncio.Event().wait()
            return name

        return made

    async with desk.working(executor("first", held=True)):
        await desk.send(order)
        await wait(lambda: executed == ["first"])
    assert desk.result(order) is None
    async with desk.working(executor("second", held=False)):
        await wait(lambda: desk.result(order) is not None)
    assert executed == ["first", "second"]
    assert desk.result(order).content == "second"


@pytest.mark.real  # two members without a stable name: the embedded broker does not rebalance them
async def test_a_worker_that_joins_and_one_that_leaves_lose_and_double_nothing(desk: Any, wait: Any) -> None:
    executed: Counter[str] = Counter()
    by: Counter[str] = Counter()

    def executor(name: str) -> Any:
        made = desk.executor()

        @made.tool("echo")
        async def echo(args: Arguments, ctx: CallContext) -> str:
            executed[ctx.order.call_key] += 1
            by[name] += 1
            await asyncio.sleep(0.01)
            return name

        return made

    orders = [desk.order(n, side_effects="read" if n % 2 else "at_most_once") for n in range(60)]
    async with desk.working(executor("second-to-go")) as stop_last:
        await desk.send(*orders[:20])
        async with desk.working(executor("first-to-go")):
            await desk.send(*orders[20:40])
            await wait(lambda: by["first-to-go"] > 0)
        await desk.send(*orders[40:])
        await wait(lambda: all(desk.result(order) is not None for order in orders))
        stop_last.set()
    assert by["second-to-go"] > 0
    assert executed == Counter({order.call_key: 1 for order in orders})
    assert {result.status for result in desk.results()} == {"success"}


def echoing(desk: Any, group: str, executed: list[tuple[str, str]], **options: Any) -> Any:
    """A worker of a group whose tool notes (group, call key) of every execution."""
    made = desk.executor(group=group, **options)

    @made.tool("echo")
    async def echo(args: Arguments, ctx: CallContext) -> str:
        executed.append((group, ctx.order.call_key))
        await asyncio.sleep(0.01)
        return group

    return made


async def test_a_renamed_group_executes_only_what_nobody_claimed(desk: Any, wait: Any) -> None:
    executed: list[tuple[str, str]] = []
    done = [desk.order(n, side_effects="read" if n % 2 else "at_most_once") for n in range(12)]
    async with desk.working(echoing(desk, "old", executed)):
        await desk.send(*done)
        await wait(lambda: all(desk.result(order) is not None for order in done))
    died = [desk.order(20, side_effects="at_most_once"), desk.order(21, side_effects="compensatable")]
    left = [desk.order(30), desk.order(31, side_effects="at_most_once")]
    for order in died:
        await desk.claim(order, "old/another")
    await desk.send(*died, *left)
    async with desk.working(echoing(desk, "new", executed)):
        await wait(lambda: all(desk.result(order) is not None for order in left))
        await wait(lambda: desk.progress(died[0])[-1].executor.startswith("new/"))
        await wait(lambda: desk.progress(died[1])[-1].executor.startswith("new/"))
        fence = [desk.order(number) for number in range(40, 56)]
        await desk.send(*fence)
        await wait(lambda: all(desk.result(order) is not None for order in fence))
    assert {order.reply_to.partition for order in fence} == set(range(4)), "whatever was ordered before was read"
    assert Counter(key for _, key in executed) == Counter(order.call_key for order in (*done, *left, *fence))
    assert len(desk.results()) == len(executed), "nothing is answered twice"
    assert [desk.result(order) for order in died] == [None, None], "nobody knows: the ledger's to hold"


async def test_two_groups_of_one_tool_share_its_orders(desk: Any, wait: Any) -> None:
    executed: list[tuple[str, str]] = []
    orders = [desk.order(n, side_effects="read" if n % 2 else "at_most_once") for n in range(40)]
    async with (
        desk.working(echoing(desk, "left", executed)),
        desk.working(echoing(desk, "right", executed)),
    ):
        await desk.send(*orders)
        await wait(lambda: all(desk.result(order) is not None for order in orders))
        await wait(lambda: all(len(desk.progress(order)) == 2 for order in orders))
    assert Counter(key for _, key in executed) == Counter(order.call_key for order in orders)
    assert len(desk.results()) == len(orders)


async def test_a_repeatable_order_of_a_dead_group_is_executed_once_it_is_quiet(desk: Any, wait: Any) -> None:
    executed: list[tuple[str, str]] = []
    order = desk.order(1)
    await desk.claim(order, "dead/worker")
    await desk.send(order)
    async with desk.working(echoing(desk, "heir", executed, quiet_s=1.0)):
        await wait(lambda: len(desk.progress(order)) == 2)
        assert executed == []
        await wait(lambda: desk.result(order) is not None)
    assert executed == [("heir", order.call_key)]
