"""`turngate dev`: the whole fleet with embedded Kafka and Redis until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate.devstack.fleet import DevFleet, FleetPlan
from turngate.devstack.stack import open_stack
from turngate.devstack.supervisor import RestartPolicy


def register(app: typer.Typer) -> None:
    """Add the `dev` command."""
    app.command("dev")(dev)


def dev(
    folder: Annotated[Path, typer.Option(help="Where data and logs go; kept between runs.")] = Path(".turngate/dev"),
    tenants: Annotated[str, typer.Option(help="Comma-separated tenants, or *.")] = "*",
) -> None:
    """Run the fleet and a simulated provider on this machine until Ctrl-C."""
    asyncio.run(_dev(folder.resolve(), tenants, Console()))


async def _dev(folder: Path, tenants: str, console: Console) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    plan = FleetPlan(folder=folder / "fleet", tenants=tenants, restart=RestartPolicy())
    async with open_stack("dev", data=folder / "stack") as stack, DevFleet(stack, plan) as fleet:
        console.print(f"TURNGATE_KAFKA={stack.kafka_bootstrap}", highlight=False)
        console.print(f"TURNGATE_REDIS={stack.redis_url}", highlight=False)
        for name in plan.roles:
            console.print(f"{name:12} {fleet.url(name)}", highlight=False)
        console.print(f"{'provider':12} {fleet.url('provider-sim')}", highlight=False)
        console.print("ready; Ctrl-C ends it", highlight=False)
        await stopping.wait()
        console.print("stopping")
