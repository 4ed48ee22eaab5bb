"""Steps run side by side unless one must be alone."""

from __future__ import annotations

import asyncio

import pytest

from turngate.runtime import takeovers
from turngate.runtime.takeovers import StepGate


class Steps:
    """Steps that end when told to, and what ran at once."""

    def __init__(self) -> None:
        self.gate = StepGate()
        self.running: set[str] = set()
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, name: str, *, alone: bool = False) -> None:
        self.ends[name] = asyncio.Event()

        async def step() -> None:
            async with self.gate.alone() if alone else self.gate.beside():
                self.running.add(name)
                await self.ends[name].wait()
                self.running.discard(name)

        self.tasks.append(asyncio.create_task(step()))

    async def seen(self) -> set[str]:
        """What runs once nothing more can begin."""
        for _ in range(20):
            await asyncio.sleep(0)
        return set(self.running)


async def test_a_careful_step_waits_for_the_others_and_they_for_it() -> None:
    steps = Steps()
    steps.begin("a")
    steps.begin("b")
    assert await steps.seen() == {"a", "b"}
    steps.begin("careful", alone=True)
    assert await steps.seen() == {"a", "b"}
    steps.begin("c")
    steps.ends["a"].set()
    assert await steps.seen() == {"b"}
    steps.ends["b"].set()
    assert await steps.seen() == {"careful"}
    steps.begin("careful too", alone=True)
    assert await steps.seen() == {"careful"}
    steps.ends["careful"].set()
    assert "careful too" not in await steps.seen()
    steps.ends["c"].set()
    assert await steps.seen() == {"careful too"}
    steps.ends["careful too"].set()
    await asyncio.gather(*steps.tasks)


async def test_a_step_that_does_not_end_holds_nobody_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeovers, "OTHERS_WAIT_SECONDS", 0.01)
    steps = Steps()
    steps.begin("stuck")
    await steps.seen()
    steps.begin("careful", alone=True)
    steps.begin("late")
    async with asyncio.timeout(10):
        while steps.running != {"stuck", "careful", "late"}:
            await asyncio.sleep(0.01)
    for end in steps.ends.values():
        end.set()
    await asyncio.gather(*steps.tasks)
