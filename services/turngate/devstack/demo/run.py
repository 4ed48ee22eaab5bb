"""Runs the demo: an embedded (or given) stack, the fleet, the story or a replay, then the audit."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from turngate.cli.audit_input import read_cluster, read_receive_log
from turngate.devstack.demo import scenario
from turngate.devstack.demo.replay import Recorded, replay
from turngate.devstack.demo.story import HELD, RECOVERS, Story
from turngate.devstack.demo.summary import show_summary
from turngate.devstack.demo.watch import Watch
from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.devstack.stack import open_stack
from turngate.domain.audit import AuditReport, audit

QUICK = {
    "TURNGATE_LEASE_MS": "3000",
    "TURNGATE_RENEW_MS": "800",
    "TURNGATE_RETRY_BASE_MS": "300",
    "TURNGATE_DRAIN_SECONDS": "3",
    "TURNGATE_SESSION_TIMEOUT_MS": "6000",
}
"""Shorter waits than production's, so that a lapsed lease is a matter of seconds."""
PLANTS = ("none", "resend")
SETTLE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """folder: where logs and data go. plant: a fault planted in a script's fence (a test of the audit)."""

    folder: Path
    plant: str = "none"
    recorded: Recorded | None = None


def run_demo(options: DemoOptions, console: Console) -> int:
    """The whole demo; returns the exit code: 0, or 1 where the audit refutes an invariant."""
    return asyncio.run(_run(options, console))


async def _run(options: DemoOptions, console: Console) -> int:
    started = time.monotonic()

    def say(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {line}", highlight=False)

    shutil.rmtree(options.folder, ignore_errors=True)
    prefix = f"demo-{secrets.token_hex(3)}"
    env = dict(QUICK)
    if options.plant != "none":
        env["TURNGATE_PLANT"] = options.plant
    script = options.recorded.script() if options.recorded is not None else scenario.script()
    plan = FleetPlan(folder=options.folder / "fleet", prefix=prefix, script=script, env=env)
    async with open_stack("demo", data=options.folder / "stack") as stack:
        say(f"stack: {stack.kafka_product}, {stack.redis_product}")
        async with DevFleet(stack, plan) as fleet:
            say(f"fleet ready: {', '.join(fleet.plan.roles)}, and a simulated provider")
            async with Watch(stack.kafka_bootstrap, prefix) as watch:
                if options.recorded is not None:
                    differs = await replay(options.recorded, watch, say)
                    conversations = [options.recorded.conversation]
                else:
                    differs = []
                    await Story(fleet, watch, say).run()
                    conversations = [RECOVERS, HELD]
                # A replayed turn's calls wait for an approval that nobody gives: pending, and to be reported as that.
                report = await _audited(fleet, say, expect_settled=options.recorded is None)
                show_summary(console, watch, conversations, report)
    for line in differs:
        console.print(f"[bold red]differs from what was expected:[/] {line}", highlight=False)
    good = not report.refuted and not differs
    say(f"done: {'every invariant holds' if good else 'FAILED'}")
    return 0 if good else 1


async def _audited(fleet: DevFleet, say: Callable[[str], None], *, expect_settled: bool) -> AuditReport:
    """The audit of everything in the topics, once the fleet is at rest; again while work is still on its way."""
    say("audit: reading every topic and the provider's receive log")
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        found = await read_cluster(fleet.stack.kafka_bootstrap, fleet.plan.prefix)
        report = audit(found.log(), read_receive_log(fleet.receive_log), expect_settled=expect_settled)
        if not report.refuted or time.monotonic() > deadline or set(report.refuted) - {"I5", "I6", "I7"}:
            return report
        await asyncio.sleep(0.5)
