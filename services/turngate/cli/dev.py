"""`turngate dev`: the whole fleet with embedded Kafka and Redis until Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate.devstack.base import Stack
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


def environment(stack: Stack, fleet: DevFleet) -> str:
    """Shell lines that tell programs, commands and curl where everything is."""
    values = {
        "TURNGATE_KAFKA": stack.kafka_bootstrap,
        "TURNGATE_REDIS": stack.redis_url,
        "PROVIDER": fleet.url("provider-sim"),
        "EDGE": fleet.url("edge"),
    }
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def shown(path: Path) -> str:
    """A path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


async def _dev(folder: Path, tenants: str, console: Console) -> None:
    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    plan = FleetPlan(folder=folder / "fleet", tenants=tenants, restart=RestartPolicy())
    async with open_stack("dev", data=folder / "stack") as stack, DevFleet(stack, plan) as fleet:
        for name in plan.roles:
            say(f"{name:12} {fleet.url(name)}")
        say(f"{'provider':12} {fleet.url('provider-sim')}, receive log {shown(fleet.receive_log)}")
        addresses = folder / "env"
        addresses.write_text(environment(stack, fleet))
        say(f"ready; in another terminal: source {shown(addresses)}; Ctrl-C ends it")
        await stopping.wait()
        console.print("stopping")
