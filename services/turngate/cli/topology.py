"""`turngate topology plan|apply|check|graph`: the topics and first offsets on a broker, and their picture."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from turngate.runtime.settings import Settings, load_settings
from turngate.schemas.errors import TurngateError
from turngate.topology.client import ClientOptions
from turngate.topology.desired import OPEN_MS_MAX, TopologyFinding
from turngate.topology.graph import topology_graph, with_graph
from turngate.topology.keys import check_partitions
from turngate.topology.provision import (
    ApplyReport,
    FirstOffset,
    apply_topology,
    check_topology,
    plan_topology,
)
from turngate.topology.topics import DAY_MS

T = TypeVar("T")

EXIT_FINDINGS = 1
EXIT_FAILED = 3
EXIT_USAGE = 64
PARTITIONS = 8
ENVIRONMENT = "production"

Kafka = Annotated[str, typer.Option(envvar="TURNGATE_KAFKA", help="Broker address, host:port.")]
Prefix = Annotated[str, typer.Option(envvar="TURNGATE_TOPIC_PREFIX", help="First part of every topic's name.")]
Partitions = Annotated[int, typer.Option(envvar="TURNGATE_PARTITIONS", help="Per topic; a power of two, at most 1024.")]
Environment = Annotated[
    str, typer.Option(envvar="TURNGATE_ENVIRONMENT", help="`dev` allows one broker; others need three.")
]


def register(app: typer.Typer) -> None:
    """Add the `topology` command group."""
    app.add_typer(_group(), name="topology")


def _group() -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help="Topics, first offsets and the rules they must keep.")
    group.command("plan")(plan)
    group.command("apply")(apply)
    group.command("check")(check)
    group.command("graph")(graph)
    return group


def plan(kafka: Kafka, prefix: Prefix = "turngate", partitions: Partitions = PARTITIONS) -> None:
    """Say what `apply` would do, changing nothing."""
    _usage(partitions)
    report = _run(plan_topology(kafka, prefix=prefix, partitions=partitions, options=_options(kafka)))
    _show(report, created="would create", committed="would commit")
    if not report.created and not report.committed:
        print("nothing to do")


def apply(
    kafka: Kafka,
    prefix: Prefix = "turngate",
    partitions: Partitions = PARTITIONS,
    environment: Environment = ENVIRONMENT,
    adopt_earliest: Annotated[
        bool,
        typer.Option(help="Commit missing offsets of written topics too: they are read from the beginning."),
    ] = False,
) -> None:
    """Create missing topics and commit missing first offsets. Never shrinks, grows or deletes;
    safe to repeat.
    """
    _usage(partitions)
    report = _run(
        apply_topology(
            kafka,
            prefix=prefix,
            partitions=partitions,
            environment=environment,
            adopt_earliest=adopt_earliest,
            options=_options(kafka),
        )
    )
    _show(report, created="created", committed="committed")
    print(f"{len(report.created)} topics created, {len(report.existing)} already there")
    if not report.ok:
        raise typer.Exit(EXIT_FINDINGS)


def check(
    kafka: Kafka,
    prefix: Prefix = "turngate",
    partitions: Partitions = PARTITIONS,
    environment: Environment = ENVIRONMENT,
    open_days: Annotated[
        int, typer.Option(min=1, help="Longest time work may stay open: approval age plus hold, in days.")
    ] = OPEN_MS_MAX // DAY_MS,
) -> None:
    """Compare the broker with the declared topology; exit 1 with findings."""
    _usage(partitions)
    found = _run(
        check_topology(
            kafka,
            prefix=prefix,
            partitions=partitions,
            environment=environment,
            open_ms_max=open_days * DAY_MS,
            options=_options(kafka),
        )
    )
    for finding in found:
        print(_line(finding))
    if any(finding.severity == "error" for finding in found):
        raise typer.Exit(EXIT_FINDINGS)
    print("topology as declared")


def graph(
    page: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Bring this page's marked block up to date."),
    ] = None,
) -> None:
    """Print the Mermaid picture of topics and roles, or write it into a page."""
    if page is None:
        print(topology_graph(), end="")
        return
    try:
        text = with_graph(page.read_text(encoding="utf-8"))
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_USAGE) from None
    page.write_text(text, encoding="utf-8")


def _usage(partitions: int) -> None:
    try:
        check_partitions(partitions)
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_USAGE) from None


def _options(kafka: str) -> ClientOptions:
    """The Kafka client's security options, from the same TURNGATE_KAFKA_* variables that the roles read."""
    try:
        # Redis plays no part here, so its address need not be set.
        settings = Settings(kafka=kafka, redis=os.environ.get("TURNGATE_REDIS") or "redis://unused")
        return settings.kafka_client_options()
    except ValidationError:
        load_settings()  # says the same, variable by variable
        raise
    except TurngateError as error:
        typer.echo(f"{error.code}: {error}", err=True)
        raise typer.Exit(EXIT_FAILED) from None


def _run(work: Coroutine[object, object, T]) -> T:
    try:
        return asyncio.run(work)
    except TurngateError as error:
        typer.echo(f"{error.code}: {error}", err=True)
        raise typer.Exit(EXIT_FAILED) from None


def _show(report: ApplyReport, *, created: str, committed: str) -> None:
    for name in report.created:
        print(f"{created} {name}")
    for group, topic, count in _counted(report.committed):
        print(f"{committed} first offsets of {group} on {topic} ({count} partitions)")
    for note in report.notes:
        print(f"note: {note}")
    for problem in report.problems:
        print(_line(problem))


def _counted(firsts: tuple[FirstOffset, ...]) -> list[tuple[str, str, int]]:
    counts: dict[tuple[str, str], int] = {}
    for first in firsts:
        counts[first.group, first.topic] = counts.get((first.group, first.topic), 0) + 1
    return [(group, topic, count) for (group, topic), count in counts.items()]


def _line(finding: TopologyFinding) -> str:
    return f"{finding.severity} {finding.code}: {finding.subject}: {finding.message}"
