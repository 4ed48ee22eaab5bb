"""Many conversations at once against a fleet, each asked one question and followed to its final answer."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from turngate.devstack.demo.toolset import TENANT, toolset
from turngate.devstack.demo.watch import Watch
from turngate.devstack.fleet import DevFleet
from turngate.devstack.provider_sim.script import Fault, Match, Plan, Rule, Script, ToolPlan
from turngate.devstack.supervisor import ProcessSpec, RestartPolicy
from turngate.schemas.base import Record
from turngate.schemas.blocks import BlockContent
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.turn import Turn

ANSWER = ("Bergen ", "is ", "mild; ", "Oslo ", "is ", "large.")
CALLS = (
    ToolPlan(id="call_weather", name="get_weather", arguments=('{"ci', 'ty":', '"Oslo', '"}')),
    ToolPlan(id="call_population", name="get_population", arguments=('{"city"', ':"Oslo"}')),
)
WORD_MS = 15
EXECUTOR = "executor"


def script(conversations: int) -> Script:
    """By number modulo 4: text, tools, slow text, tools whose first stream is cut in the middle of a call."""
    text, tools = Plan(text=ANSWER), Plan(text=("Let me look.",), tools=CALLS)
    rules = [Rule(match=Match(tool_results=True), plan=text)]
    for number in range(conversations):
        match = Match(contains=_tag(number))
        if number % 4 == 3:
            cut = tools.model_copy(update={"fault": Fault(kind="cut", after_events=6)})
            rules.append(Rule(match=match.model_copy(update={"request": 1}), plan=cut))
        plans = (text, tools, text.model_copy(update={"delay_ms": WORD_MS}), tools)
        rules.append(Rule(match=match, plan=plans[number % 4]))
    return Script(rules=tuple(rules))


class Crowd:
    """An async context manager over the tool executor and a reader of what is committed.

    name: in every conversation id, so that several crowds can follow one another on a fleet.
    """

    def __init__(
        self, fleet: DevFleet, name: str, *, conversations: int, open_max: int = 40, endpoints: Sequence[str]
    ) -> None:
        self._fleet = fleet
        self._name = name
        self._count = conversations
        self._open = asyncio.Semaphore(open_max)
        self._endpoints = endpoints
        self._executor = f"{EXECUTOR}-{name}"
        self._stack = AsyncExitStack()
        self._final: dict[str, asyncio.Event] = {}
        self.watch = Watch(fleet.stack.kafka_bootstrap, fleet.plan.prefix, self._note)

    async def __aenter__(self) -> Self:
        fleet = self._fleet
        argv = (sys.executable, "-m", "turngate.devstack.demo.tools")
        env = {"TURNGATE_KAFKA": fleet.stack.kafka_bootstrap, "TURNGATE_TOPIC_PREFIX": fleet.plan.prefix}
        log = fleet.plan.folder / f"{self._executor}.log"
        fleet.supervisor.start(ProcessSpec(self._executor, argv, log, env, restart=RestartPolicy()))
        await self._stack.enter_async_context(self.watch)
        await self.watch.send("toolsets", toolset(), TENANT, "toolsets")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await self._fleet.supervisor.kill(self._executor, signal.SIGTERM)

    async def run(self, timeout_seconds: float) -> None:
        """Asks everybody and waits for every final answer. Raises TimeoutError naming how many are missing."""
        asking = [asyncio.create_task(self._ask(number)) for number in range(self._count)]
        _, missing = await asyncio.wait(asking, timeout=timeout_seconds)
        for task in missing:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        if missing:
            raise TimeoutError(f"{len(missing)} of {self._count} conversations unsettled, e.g. {self.stuck()[:5]}")
        for task in asking:
            task.result()

    def settled(self) -> int:
        """How many conversations have their final answer."""
        return sum(final.is_set() for final in self._final.values())

    def stuck(self) -> list[str]:
        """Conversations without a final answer."""
        return [name for name, final in self._final.items() if not final.is_set()]

    async def _ask(self, number: int) -> None:
        conversation = f"{self._name}-{number}"
        endpoint = self._endpoints[number % len(self._endpoints)]
        final = self._final[conversation] = asyncio.Event()
        request = TurnRequest(
            tenant=TENANT,
            conversation=conversation,
            request_id=f"ask-{number}",
            blocks=(NewBlock(role="user", content=BlockContent(text=f"How is it there? {_tag(number)}")),),
            options=TurnOptions(
                endpoint=endpoint, model="sim-1", max_output_tokens=256, toolset_digest=toolset().toolset_digest
            ),
        )
        async with self._open:
            await self.watch.send("turn-requests", request, TENANT, conversation)
            await final.wait()

    def _note(self, record: Record) -> None:
        if not isinstance(record, Turn) or record.kind != "assistant":
            return
        final = self._final.get(record.conversation)
        if final is not None and not any(block.kind == "tool_call" for block in record.blocks):
            final.set()


def _tag(number: int) -> str:
    return f"[{number}]"
