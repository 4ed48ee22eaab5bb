"""The demo's acts, each a question and a fault; what must be seen is waited for, never hoped for."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.devstack.demo import scenario
from turngate.devstack.demo.toolset import TENANT, toolset
from turngate.devstack.demo.watch import Watch
from turngate.devstack.errors import StackError
from turngate.devstack.fleet import DevFleet
from turngate.devstack.supervisor import ProcessSpec
from turngate.schemas.blocks import BlockContent
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.stream import EventsFrame

RECOVERS = "fjord-trip"
"""The conversation at the provider that declares closeEndsGeneration."""
HELD = "city-break"
"""The conversation at the provider that does not."""
EXECUTOR = "executor"


@dataclass(slots=True)
class Story:
    """Runs the acts. say: where each line of the telling goes."""

    fleet: DevFleet
    watch: Watch
    say: Callable[[str], None]
    requests: int = 0
    resolved: list[str] = field(default_factory=list[str])

    async def run(self) -> None:
        """All acts, in order."""
        self._start_executor()
        await self.watch.send("toolsets", toolset(), TENANT, "toolsets")
        await self._act_cut_and_recover()
        await self._act_unknown_and_operator()
        await self._act_dispatcher_killed()
        await self._act_reassembler_killed()
        await self._act_redis_restarted()

    def _start_executor(self) -> None:
        fleet = self.fleet
        argv = (sys.executable, "-m", "turngate.devstack.demo.tools")
        env = {"TURNGATE_KAFKA": fleet.stack.kafka_bootstrap, "TURNGATE_TOPIC_PREFIX": fleet.plan.prefix}
        fleet.supervisor.start(ProcessSpec(EXECUTOR, argv, fleet.plan.folder / "executor.log", env))

    async def ask(self, conversation: str, endpoint: str, text: str) -> int:
        """Sends a turn request; returns the revision its input turn will have."""
        self.requests += 1
        revision = len(self.watch.turns(conversation)) + 1
        request = TurnRequest(
            tenant=TENANT,
            conversation=conversation,
            request_id=f"req-{self.requests}",
            blocks=(NewBlock(role="user", content=BlockContent(text=text)),),
            options=TurnOptions(
                endpoint=endpoint, model="sim-1", max_output_tokens=512, toolset_digest=toolset().toolset_digest
            ),
        )
        self.say(f"[bold]{conversation}[/] asks {endpoint}: {text}")
        await self.watch.send("turn-requests", request, TENANT, conversation)
        return revision

    async def _head(self, conversation: str, revision: int, kind: str = "assistant") -> None:
        def there() -> bool:
            return any(turn.revision == revision and turn.kind == kind for turn in self.watch.turns(conversation))

        await self.watch.until(f"{conversation}: {kind} turn of revision {revision} committed", there)

    async def _previewed(self, conversation: str, revision: int, count: int) -> None:
        """Waits until the open operation on a base revision has shown some text."""

        def shown() -> bool:
            operations = {d.operation_id for d in self.watch.dispatches(conversation) if d.base_revision == revision}
            deltas = [e for e in self.watch.events(conversation, "partial_text") if e.operation_id in operations]
            return sum(event.step == "delta" for event in deltas) >= count

        await self.watch.until(f"{conversation}: preview on revision {revision}", shown)

    async def _act_cut_and_recover(self) -> None:
        base = await self.ask(RECOVERS, "openai", scenario.ASK_TOOLS)
        self.say(
            "  the first stream is cut in the middle of a call's arguments; its provider declares closeEndsGeneration"
        )
        await self._head(RECOVERS, base + 3)
        self.say("  recovered by itself: next generation, two calls executed, results in call order, answer committed")

    async def _act_unknown_and_operator(self) -> None:
        base = await self.ask(HELD, "anthropic", scenario.ASK_TOOLS)
        self.say("  cut likewise; this provider declares nothing, so the attempt can only be UNKNOWN")
        listed = ""
        for _ in range(150):
            listed = await self._command("unknown", "list")
            if HELD in listed:
                break
            await asyncio.sleep(0.2)
        else:
            raise StackError("the cut attempt was not shown as UNKNOWN")
        for line in listed.splitlines():
            self.say(f"  [yellow]{line}[/]")
        operation = next(d.operation_id for d in self.watch.dispatches(HELD) if d.base_revision == base)
        self.say(f"  an operator decides: turngate unknown resolve {operation}")
        await self._command("unknown", "resolve", operation, "--reason", "the provider's log shows no such response")
        self.resolved.append(operation)
        await self._head(HELD, base + 3)
        self.say("  resolved: the next generation sent the same bytes and was committed")

    async def _act_dispatcher_killed(self) -> None:
        base = await self.ask(RECOVERS, "openai", scenario.ASK_DISPATCHER)
        await self._previewed(RECOVERS, base, 2)
        await self._sequence_twice(base)
        self.say("  [red]SIGKILL[/] dispatcher while its stream is open")
        await self.fleet.supervisor.kill("dispatcher", signal.SIGKILL)
        await self.fleet.supervisor.restart("dispatcher")
        await self._head(RECOVERS, base + 1)
        self.say("  its lease ran out, its instance came back with a higher boot number: evidence, next generation")

    async def _sequence_twice(self, base: int) -> None:
        """A repeated command: the send door answers `already`, unless a planted fault has taken its fence away."""
        message = self.watch.newest("sequences", lambda value: f'"baseRevision":{base}'.encode() in value)
        if message is None:
            raise StackError("the sequence record of the open operation was not seen")
        self.say("  its sequence record is delivered a second time")
        await self.watch.send_again(message)
        await asyncio.sleep(0.5)

    async def _act_reassembler_killed(self) -> None:
        base = await self.ask(RECOVERS, "openai", scenario.ASK_REASSEMBLER)
        await self._previewed(RECOVERS, base, 3)
        await self._frame_twice(base)
        self.say("  [red]SIGKILL[/] reassembler in the middle of the stream")
        await self.fleet.supervisor.kill("reassembler", signal.SIGKILL)
        await self.fleet.supervisor.restart("reassembler")
        await self._head(RECOVERS, base + 1)
        self.say("  it replayed from its watermark with outputs muted; the same generation was committed")

    async def _frame_twice(self, base: int) -> None:
        operations = {d.operation_id.encode() for d in self.watch.dispatches(RECOVERS) if d.base_revision == base}
        frame = EventsFrame.SCHEMA.encode()
        message = self.watch.newest(
            "stream-events", lambda value: frame in value and any(o in value for o in operations)
        )
        if message is None:
            raise StackError("no frame of the open stream was seen")
        self.say("  one frame is delivered twice")
        await self.watch.send_again(message)

    async def _act_redis_restarted(self) -> None:
        base = await self.ask(RECOVERS, "openai", scenario.ASK_REDIS)
        await self._previewed(RECOVERS, base, 1)
        self.say("  [red]Redis is restarted[/]; buckets are closed until recovery has fenced, adopted and opened them")
        await self.fleet.stack.restart_redis(False)
        await self._head(RECOVERS, base + 1)
        self.say("  committed after the reconcile")

    async def _command(self, *words: str) -> str:
        """Runs `turngate ...` as an operator would. Raises StackError with its complaint."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "turngate.cli.main", *words,
            env={**os.environ, **self.fleet.environment("operator")},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        if process.returncode:
            raise StackError(f"turngate {' '.join(words[:2])}: {err.decode(errors='replace').strip()[-300:]}")
        return out.decode()
