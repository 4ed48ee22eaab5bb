"""`turngate trace CONVERSATION`: the complete events of a conversation, from the kept trace topic."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated

import typer

from turngate.cli.audit_input import Collected, read_cluster, read_dump
from turngate.schemas.base import NAME_PATTERN
from turngate.schemas.codec import encode
from turngate.schemas.errors import TurngateError
from turngate.schemas.session import SessionEvent

EXIT_NOTHING = 1
EXIT_UNREADABLE = 3
EXIT_USAGE = 64

_NAME = re.compile(NAME_PATTERN.strip("^$"))


def register(app: typer.Typer) -> None:
    """Add the `trace` command."""
    app.command("trace")(trace_command)


def trace_command(
    conversation: Annotated[str, typer.Argument(help="TENANT/CONVERSATION, or CONVERSATION with --tenant.")],
    tenant: Annotated[str | None, typer.Option(envvar="TURNGATE_TENANT", help="The tenant.")] = None,
    kafka: Annotated[str | None, typer.Option(envvar="TURNGATE_KAFKA", help="Broker address, host:port.")] = None,
    topic_prefix: Annotated[
        str, typer.Option(envvar="TURNGATE_TOPIC_PREFIX", help="First part of every topic's name.")
    ] = "turngate",
    dump: Annotated[Path | None, typer.Option(help="Read this folder instead of a cluster.")] = None,
) -> None:
    """Print every complete event, one line of JSON each. Exit 1 where the trace holds none."""
    if tenant is None:
        tenant, _, conversation = conversation.partition("/")
    if not _NAME.fullmatch(tenant) or not _NAME.fullmatch(conversation) or (kafka is None and dump is None):
        typer.echo("name TENANT/CONVERSATION, and a cluster (TURNGATE_KAFKA) or a folder (--dump)", err=True)
        raise typer.Exit(EXIT_USAGE)
    try:
        found = _collect(kafka, topic_prefix, dump)
    except TurngateError as error:
        typer.echo(f"{error.code}: {error}", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    shown = 0
    for _, event in found.log().read("trace", SessionEvent):
        if (event.tenant, event.conversation) == (tenant, conversation):
            typer.echo(encode(event).decode())
            shown += 1
    if not shown:
        typer.echo(f"the trace holds nothing of {tenant}/{conversation}", err=True)
        raise typer.Exit(EXIT_NOTHING)


def _collect(kafka: str | None, prefix: str, dump: Path | None) -> Collected:
    if dump is not None:
        return read_dump(dump)
    assert kafka is not None
    return asyncio.run(read_cluster(kafka, prefix, ("trace",)))
