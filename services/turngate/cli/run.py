"""`turngate run ROLE`: one process of one role, configured by TURNGATE_* variables alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, cast

import typer


class Role(StrEnum):
    """The seven roles; each is a consumer group of its own, scaled by partition."""

    VALIDATOR = "validator"
    DISPATCHER = "dispatcher"
    REASSEMBLER = "reassembler"
    LEDGER = "ledger"
    RECOVERY = "recovery"
    EDGE = "edge"
    OBSERVER = "observer"


def register(app: typer.Typer) -> None:
    """Add the `run` command."""
    app.command("run")(run)


def run(role: Annotated[Role, typer.Argument(help="Which role this process plays.")]) -> None:
    """Run one role until SIGTERM or Ctrl-C; it hands its partitions over before it ends."""
    entry = importlib.import_module(f"turngate.{role}.__main__")
    code = cast(Callable[[], int | None], entry.main)()
    if code:
        raise typer.Exit(code)
