"""`turngate schemas export DIR`: one JSON Schema file per record, and an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngate.schemas.export import export_schemas, stale_schemas

EXIT_STALE = 1


def register(app: typer.Typer) -> None:
    """Add the `schemas` command group."""
    group = typer.Typer(no_args_is_help=True, help="The records as JSON Schema documents.")
    group.callback()(_group)
    group.command("export")(export)
    app.add_typer(group, name="schemas")


def _group() -> None:
    """The records as JSON Schema documents."""


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="Where the files go.")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where files differ.")] = False,
) -> None:
    """Write one JSON Schema 2020-12 file per record and an index, or check that they are up to date."""
    if check:
        stale = stale_schemas(directory)
        for name in stale:
            print(f"stale {name}")
        if stale:
            raise typer.Exit(EXIT_STALE)
        return
    written = export_schemas(directory)
    print(f"{len(written)} files written to {directory}")
