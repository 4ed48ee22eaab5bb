"""`turngate render FILE --adapter NAME[@VERSION]`: the exact bytes of a sequence. Sends nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from turngate.cli.terminal import read_input, shown
from turngate.domain.adapters.registry import AdapterError, UnknownAdapter, adapter, build_manifest
from turngate.domain.sequence import judge_sequence
from turngate.schemas.codec import decode, encode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import Toolset

EXIT_REJECTED = 1
EXIT_HELD = 2
EXIT_UNREADABLE = 3
EXIT_USAGE = 64


def register(app: typer.Typer) -> None:
    """Add the `render` command."""
    app.command("render")(render)


def render(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A MessageSequence; - is standard input.")],
    adapter_name: Annotated[str, typer.Option("--adapter", help="NAME or NAME@VERSION.")],
    manifest: Annotated[bool, typer.Option("--manifest", help="Print the manifest as JSON instead.")] = False,
    toolset: Annotated[Path | None, typer.Option("--toolset", help="The Toolset record the sequence names.")] = None,
    operation_id: Annotated[str, typer.Option("--operation-id", help="For the manifest.")] = "op-render",
    provider: Annotated[str, typer.Option("--provider", help="For the manifest: endpoint name.")] = "none",
    created_at_ms: Annotated[int, typer.Option("--created-at-ms", min=0, help="For the manifest.")] = 0,
) -> None:
    """Write the exact body bytes to standard output.

    Exit 0 rendered, 1 the sequence is invalid, 2 it waits for results or holds what the adapter does not
    know, 3 unreadable, 64 wrong usage.
    """
    try:
        chosen = adapter(adapter_name)
    except UnknownAdapter as error:
        raise _exit(EXIT_USAGE, str(error)) from None
    try:
        sequence = decode(MessageSequence, read_input(file))
        tools = decode(Toolset, toolset.read_bytes()) if toolset is not None else None
    except OSError as error:
        raise _exit(EXIT_UNREADABLE, f"unreadable: {error.strerror or 'input error'}") from None
    except (InvalidRecord, UnknownSchema) as error:
        raise _exit(EXIT_UNREADABLE, f"unreadable: {error}") from None
    judged = judge_sequence(sequence)
    if judged.verdict != "READY":
        for finding in judged.findings:
            print(
                shown(f"{finding.severity}  {finding.code}  {finding.path or ''}  {finding.message}"),
                file=sys.stderr,
            )
        raise typer.Exit(EXIT_REJECTED if judged.verdict == "REJECTED" else EXIT_HELD)
    try:
        rendered = chosen.render(sequence, tools)
    except AdapterError as error:
        raise _exit(EXIT_HELD, f"{error.code}: {error}") from None
    data = rendered.body
    if manifest:
        record = build_manifest(
            sequence,
            rendered,
            chosen,
            operation_id=operation_id,
            provider=provider,
            created_at_ms=created_at_ms,
        )
        data = encode(record) + b"\n"
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _exit(code: int, message: str) -> typer.Exit:
    print(f"turngate render: {message}", file=sys.stderr)
    return typer.Exit(code)
