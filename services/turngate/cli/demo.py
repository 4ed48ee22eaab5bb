"""`turngate demo`: a scripted run under faults with a picture of what happened; `--replay` plays a recorded stream."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate.devstack.demo.replay import read_recorded
from turngate.devstack.demo.run import DemoOptions, run_demo
from turngate.devstack.errors import StackError


class Plant(StrEnum):
    NONE = "none"
    RESEND = "resend"


def register(app: typer.Typer) -> None:
    """Add the `demo` command."""
    app.command("demo")(demo)


def demo(
    replay: Annotated[
        Path | None, typer.Option(help="A recorded stream: a capture as JSON, or a raw SSE body with --profile.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Profile of a raw SSE body.")] = None,
    folder: Annotated[Path, typer.Option(help="Where data and logs of the run go; emptied first.")] = Path(
        ".turngate/demo"
    ),
    plant: Annotated[
        Plant, typer.Option(help="Take a fence away on purpose: the audit must fail.", hidden=True)
    ] = Plant.NONE,
) -> None:
    """Run the fleet on embedded Kafka and Redis under faults, then audit it. Exit 1 where an invariant is refuted."""
    recorded = read_recorded(replay, profile) if replay is not None else None
    try:
        code = run_demo(DemoOptions(folder.resolve(), plant.value, recorded), Console())
    except StackError as error:
        # One line: which program, how it stands, and the log that says why; the log's tail is left to the log.
        line = str(error).partition(":\n")[0]
        raise StackError(f"{line}; read the log, or run again on a less busy machine", code=error.code) from None
    raise typer.Exit(code)
