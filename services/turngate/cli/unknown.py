"""`turngate unknown list|show|resolve`: attempts nobody can tell the outcome of, and an operator's word about one."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from turngate.cli.operations import OpenOperation, find_unknown, send_control
from turngate.runtime.settings import load_settings
from turngate.schemas.control import Control
from turngate.schemas.digests import parts_digest
from turngate.schemas.errors import Refused


def register(app: typer.Typer) -> None:
    """Add the `unknown` commands."""
    group = typer.Typer(no_args_is_help=True, help="Attempts whose outcome is UNKNOWN.")
    group.command("list")(list_unknown)
    group.command("show")(show_unknown)
    group.command("resolve")(resolve)
    app.add_typer(group, name="unknown")


def list_unknown() -> None:
    """Every attempt that is UNKNOWN now, the oldest first."""
    found = asyncio.run(find_unknown(load_settings()))
    table = Table("operation", "conversation", "generation", "endpoint", "UNKNOWN for", "why it is held", box=None)
    for one in sorted(found, key=lambda item: -item.age_seconds):
        table.add_row(*_row(one))
    Console(width=200).print(table)


def show_unknown(operation: Annotated[str, typer.Argument(help="Operation id.")]) -> None:
    """One attempt that is UNKNOWN."""
    one = _find(operation)
    for name, value in zip(
        ("operation", "conversation", "generation", "endpoint", "age", "held"), _row(one), strict=True
    ):
        typer.echo(f"{name}: {value}")
    typer.echo(f"relay: {one.relay}\nowner: {one.owner}\nmanifest digest: {one.manifest_digest}")


def resolve(
    operation: Annotated[str, typer.Argument(help="Operation id.")],
    reason: Annotated[str, typer.Option(help="Why you know that the attempt is over; kept with the command.")],
    actor: Annotated[str, typer.Option(help="Who says so.")] = "operator",
) -> None:
    """Say that the attempt can produce nothing more. The next generation follows, or the operation fails."""
    one = _find(operation)
    tenant, _, conversation = one.key.partition("/")
    control = Control(
        tenant=tenant,
        conversation=conversation,
        control_id=f"resolve-{parts_digest(operation, one.generation)[:24]}",
        command="resolve_unknown",
        operation_id=operation,
        generation=one.generation,
        reason=reason,
        actor=actor,
    )
    asyncio.run(send_control(load_settings(), control))
    typer.echo(f"resolve_unknown sent for {operation}, generation {one.generation}")


def _find(operation: str) -> OpenOperation:
    for one in asyncio.run(find_unknown(load_settings())):
        if one.operation_id == operation:
            return one
    raise Refused(f"{operation} is not UNKNOWN (any more); see turngate unknown list", code="not_unknown")


def _row(one: OpenOperation) -> tuple[str, ...]:
    return (
        one.operation_id, one.key, str(one.generation), one.endpoint, f"{one.age_seconds:.0f} s", one.held,
    )  # fmt: skip
