"""`turngate audit`: prove or refute the invariants from outside. Exit 0, 1 refuted, 3 input unreadable."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.cli.audit_input import Collected, read_cluster, read_dump, read_receive_log, write_dump
from turngate.domain.audit import AuditReport, InvariantResult, Status, TimelineRow, audit
from turngate.schemas.errors import TurngateError

EXIT_UNREADABLE = 3
EXIT_USAGE = 64
ROWS_MAX = 40

_WORDS = {
    Status.PROVED: ("proved", "green"),
    Status.REFUTED: ("REFUTED", "bold red"),
    Status.UNDECIDABLE: ("undecidable", "yellow"),
    Status.BY_SENDERS_WORD: ("by the sender's word", "cyan"),
    Status.UNSEEN: ("nothing to see", "dim"),
}


class ReportForm(StrEnum):
    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the `audit` command."""
    app.command("audit")(audit_command)


def audit_command(
    kafka: Annotated[str | None, typer.Option(envvar="TURNGATE_KAFKA", help="Broker address, host:port.")] = None,
    topic_prefix: Annotated[
        str, typer.Option(envvar="TURNGATE_TOPIC_PREFIX", help="First part of every topic's name.")
    ] = "turngate",
    dump: Annotated[Path | None, typer.Option(help="Read this folder of JSON lines instead of a cluster.")] = None,
    receive_log: Annotated[
        Path | None, typer.Option(help="What the provider's side received, one JSON line for each request.")
    ] = None,
    report: Annotated[ReportForm, typer.Option(help="How to print the result.")] = ReportForm.TEXT,
    expect_settled: Annotated[
        bool, typer.Option("--expect-settled", help="The run is over: work still open counts as lost.")
    ] = False,
    write_dump_to: Annotated[
        Path | None, typer.Option("--write-dump", help="Also write what was read into this folder.")
    ] = None,
) -> None:
    """Prove or refute I1-I10 from topics alone (and a receive log), with the first counter-example."""
    if dump is None and kafka is None:
        typer.echo("name a cluster (--kafka or TURNGATE_KAFKA) or a folder (--dump)", err=True)
        raise typer.Exit(EXIT_USAGE)
    try:
        lines = None if receive_log is None else read_receive_log(receive_log)
        found = _collect(kafka, topic_prefix, dump)
        if write_dump_to is not None:
            write_dump(write_dump_to, found)
        result = audit(found.log(), lines, expect_settled=expect_settled)
    except (TurngateError, OSError) as error:
        typer.echo(f"{getattr(error, 'code', 'unreadable')}: {error}", err=True)
        raise typer.Exit(EXIT_UNREADABLE) from None
    if report is ReportForm.JSON:
        typer.echo(orjson.dumps(result.plain(), option=orjson.OPT_INDENT_2).decode())
    else:
        show_report(result, Console())
    raise typer.Exit(result.exit_code)


def _collect(kafka: str | None, prefix: str, dump: Path | None) -> Collected:
    if dump is not None:
        return read_dump(dump)
    assert kafka is not None
    return asyncio.run(read_cluster(kafka, prefix))


def show_report(report: AuditReport, console: Console) -> None:
    """The table of invariants, then for each refuted one its first counter-example."""
    received = "no receive log" if report.lines is None else f"{report.lines} received requests"
    table = Table(title=f"audit of {sum(report.records.values())} records, {received}", title_justify="left")
    for heading in ("", "invariant", "verdict", "looked at"):
        table.add_column(heading, overflow="fold")
    for result in report.results:
        word, style = _WORDS[result.status]
        counts = ", ".join(f"{number} {what}" for what, number in result.counts.items() if number)
        table.add_row(result.invariant, result.title, Text(word, style=style), counts or "nothing")
    console.print(table)
    for result in report.results:
        if result.unknowns:
            console.print(f"{result.invariant} undecided ({result.unknown_count}): {'; '.join(result.unknowns)}")
        if result.breaches:
            _show_breach(result, console)
    console.print(f"refuted: {', '.join(report.refuted)}" if report.refuted else "nothing is refuted", highlight=False)


def _show_breach(result: InvariantResult, console: Console) -> None:
    breach = result.breaches[0]
    console.print()
    console.print(Text(f"{result.invariant} refuted: {breach.why} (1 of {result.breach_count})", style="bold red"))
    show_timeline(breach.timeline, console)


def show_timeline(rows: tuple[TimelineRow, ...], console: Console) -> None:
    """Rows as `+milliseconds  topic partition:offset  gist`, times since the first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("ms", justify="right")
    table.add_column("where", no_wrap=True)
    table.add_column("what", overflow="fold")
    start = rows[0].time_ms if rows else 0
    for row in rows[:ROWS_MAX]:
        place = f"line {row.offset}" if row.partition < 0 else f"{row.partition}:{row.offset}"
        table.add_row(f"+{row.time_ms - start}", f"{row.topic} {place}", Text(row.gist))
    console.print(table)
    if len(rows) > ROWS_MAX:
        console.print(f"... and {len(rows) - ROWS_MAX} more")
