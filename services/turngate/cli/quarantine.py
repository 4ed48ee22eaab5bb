"""`turngate quarantine list|show|export|replay`: what was set aside, why, and what the gate would say of it now.

All four read only: nothing of the quarantine is ever acted on, and no record is written.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn, cast

import typer
from rich.console import Console
from rich.table import Table

from turngate.cli.audit import ReportForm
from turngate.cli.audit_input import Collected, read_cluster, read_dump
from turngate.domain.audit import AuditLog
from turngate.domain.stream.conformance import Report, exit_code, judge_fixture
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.fixture_text import fixture_text
from turngate.domain.stream.quarantined import (
    Asked,
    Case,
    Frames,
    Kept,
    cases_of,
    error_codes,
    fixture_of,
    frames_of,
    judge,
    redacted_frames,
)
from turngate.domain.stream.redact import redact_fixture
from turngate.runtime.logging import configure_logging
from turngate.runtime.settings import load_kafka_options
from turngate.schemas.errors import TurngateError
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.quarantine import Quarantined
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.tools import Toolset

EXIT_NOTHING = 1
EXIT_UNREADABLE = 3
EXIT_USAGE = 64
LIMIT = 100
TOPICS_OF_A_CASE = ("quarantine", "manifests", "toolsets", "sequences")

Kafka = Annotated[str | None, typer.Option(envvar="TURNGATE_KAFKA", help="Broker address, host:port.")]
Prefix = Annotated[str, typer.Option(envvar="TURNGATE_TOPIC_PREFIX", help="First part of every topic's name.")]
Dump = Annotated[Path | None, typer.Option(help="Read this folder (turngate audit --write-dump) instead of a cluster.")]
Form = Annotated[ReportForm, typer.Option("--report", help="How to print the result.")]
Ident = Annotated[str, typer.Argument(metavar="ID", help="As list shows it, or its beginning, or an operation id.")]


def register(app: typer.Typer) -> None:
    """Add the `quarantine` commands."""
    group = typer.Typer(no_args_is_help=True, help="Late, foreign and blocked frames and results.")
    group.command("list")(list_cases)
    group.command("show")(show_case)
    group.command("export")(export_case)
    group.command("replay")(replay_case)
    app.add_typer(group, name="quarantine")


def list_cases(
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Only of this conversation.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only with this reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the newest.")] = LIMIT,
    report: Form = ReportForm.TEXT,
    kafka: Kafka = None,
    topic_prefix: Prefix = "turngate",
    dump: Dump = None,
) -> None:
    """What is in quarantine, the newest first: one line for each relay (or call) and reason."""
    found = [
        case
        for case in _cases(_log(kafka, topic_prefix, dump, ("quarantine",)))
        if tenant in (None, case.tenant) and conversation in (None, case.conversation)
        if reason in (None, case.record.reason)
    ]
    rows = [_row(case) for case in found[:limit]]
    if len(found) > limit:
        typer.echo(f"{len(found) - limit} older ones are not shown: raise --limit", err=True)
    if report is ReportForm.JSON:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    table = Table(box=None)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for row in rows:
        table.add_row(*("" if row[name] is None else str(row[name]) for name in _COLUMNS))
    Console(width=200, highlight=False).print(table)


_COLUMNS = ("id", "time", "tenant", "conversation", "reason", "operation", "generation", "relay", "records", "bytes")


def _row(case: Case) -> Mapping[str, object]:
    record = case.record
    return {
        "id": case.ident,
        "time": datetime.fromtimestamp(case.time_ms / 1000, UTC).isoformat(timespec="seconds"),
        "tenant": case.tenant,
        "conversation": case.conversation,
        "reason": record.reason,
        "operation": record.operation_id or record.call_key,
        "generation": record.generation,
        "relay": record.relay,
        "records": len(case.kept),
        "bytes": case.length,
    }


def show_case(
    ident: Ident,
    raw: Annotated[bool, typer.Option("--raw", help="Show the frames as they are. This is logged.")] = False,
    kafka: Kafka = None,
    topic_prefix: Prefix = "turngate",
    dump: Dump = None,
) -> None:
    """One case: what the gate finds in it, where its records were read, and its frames, redacted."""
    opened = _open(ident, kafka, topic_prefix, dump)
    case, frames = opened.case, opened.frames
    for name, value in _row(case).items():
        typer.echo(f"{name}: {'' if value is None else value}")
    report = _judged(opened, None if frames.begin is None else frames.begin.normaliser)
    if report is not None:
        typer.echo(f"normaliser: {report['normaliser']}\nfinding codes: {', '.join(error_codes(report)) or 'none'}")
        for finding in cast("list[Mapping[str, object]]", report["findings"]):
            where = " ".join(f"{key}={finding[key]}" for key in ("slot", "eventIndex") if finding[key] is not None)
            typer.echo(f"  {finding['severity']}  {finding['code']}  {finding['message']}  {where}".rstrip())
    _say_gaps(opened)
    if raw:
        _note("quarantine_shown_raw", case)
        shown = [(one, [one.payload.decode("utf-8", "replace")]) for one in case.kept]
    else:
        shown = [(one, list(lines)) for one, lines in redacted_frames(case, frames, opened.asked)]
    for one, lines in shown:
        origin = one.record.origin
        typer.echo(f"{origin.topic} {origin.partition}:{origin.offset}, {one.record.payload.length} bytes")
        for line in lines:
            typer.echo(f"  {line}")


def export_case(
    ident: Ident,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The fixture to write.")],
    redact: Annotated[bool, typer.Option("--redact", help="With placeholders instead of values.")] = False,
    kafka: Kafka = None,
    topic_prefix: Prefix = "turngate",
    dump: Dump = None,
) -> None:
    """Write the case as a fixture for `turngate conformance`. Without --redact it holds content; that is logged."""
    opened = _open(ident, kafka, topic_prefix, dump)
    if not opened.frames.events:
        _fail("nothing_to_export", "no event of a stream was kept in this case", EXIT_NOTHING)
    fixture = fixture_of(opened.case, opened.frames, opened.asked)
    if redact:
        fixture = replace(redact_fixture(fixture), meta=fixture.meta)
    else:
        _note("quarantine_exported_raw", opened.case)
    try:
        out.write_bytes(fixture_text(fixture))
    except OSError as error:
        _fail("unwritable", f"cannot write {out}: {error.strerror or 'output error'}", EXIT_UNREADABLE)
    codes = error_codes(judge_fixture(fixture))
    typer.echo(f"{out}: {len(fixture.events)} events; turngate conformance finds {', '.join(codes) or 'no error'}")
    _say_gaps(opened)


def replay_case(
    ident: Ident,
    normaliser: Annotated[str | None, typer.Option(help="PROFILE@VERSION instead of the newest.")] = None,
    report: Form = ReportForm.TEXT,
    kafka: Kafka = None,
    topic_prefix: Prefix = "turngate",
    dump: Dump = None,
) -> None:
    """Judge the frames once more, here and now. Changes nothing: no outcome, no turn, no record.

    Exit 0 they would pass, 1 they would not, 2 they hold no tool calls, 3 they cannot be judged.
    """
    opened = _open(ident, kafka, topic_prefix, dump)
    if not opened.frames.events:
        _fail("nothing_to_replay", "no event of a stream was kept in this case", EXIT_UNREADABLE)
    try:
        found = judge(opened.frames, opened.asked, normaliser)
    except UnknownNormaliser as error:
        _fail(error.code, str(error), EXIT_UNREADABLE)
    then = None if opened.frames.begin is None else opened.frames.begin.normaliser
    if report is ReportForm.JSON:
        extra = {
            "id": opened.case.ident, "reason": opened.case.record.reason, "normaliserThen": then,
            "complete": opened.frames.complete, "toolset": opened.asked.tools is not None,
        }  # fmt: skip
        typer.echo(json.dumps({**extra, **found}))
    else:
        turn = cast("Mapping[str, object]", found["turn"])
        typer.echo(f"set aside for: {opened.case.record.reason} (normaliser {then or 'not recorded'})")
        typer.echo(f"now: {found['status']}  verdict={turn['verdict']} stop={turn['stop']} by {found['normaliser']}")
        for finding in cast("list[Mapping[str, object]]", found["findings"]):
            typer.echo(f"  {finding['severity']}  {finding['code']}  {finding['message']}")
        typer.echo("nothing was changed: what is in quarantine stays there and is never acted on")
        _say_gaps(opened)
    raise typer.Exit(exit_code([found]))


# -- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    case: Case
    frames: Frames
    asked: Asked


def _log(kafka: str | None, prefix: str, dump: Path | None, topics: tuple[str, ...]) -> AuditLog:
    if dump is None and kafka is None:
        typer.echo("name a cluster (--kafka or TURNGATE_KAFKA) or a folder (--dump)", err=True)
        raise typer.Exit(EXIT_USAGE)
    try:
        found: Collected
        if dump is not None:
            found = read_dump(dump)
        else:
            assert kafka is not None
            found = asyncio.run(read_cluster(kafka, prefix, topics, load_kafka_options(kafka)))
        return found.log()
    except TurngateError as error:
        _fail(error.code, str(error), EXIT_UNREADABLE)


def _cases(log: AuditLog) -> list[Case]:
    return cases_of(Kept(entry.time_ms, record) for entry, record in log.read("quarantine", Quarantined))


def _open(ident: str, kafka: str | None, prefix: str, dump: Path | None) -> _Opened:
    log = _log(kafka, prefix, dump, TOPICS_OF_A_CASE)
    found = [
        case for case in _cases(log) if ident and (case.ident.startswith(ident) or case.record.operation_id == ident)
    ]
    if not found:
        _fail("not_found", "no such case in quarantine; see turngate quarantine list", EXIT_NOTHING)
    if len(found) > 1:
        names = ", ".join(f"{case.ident} ({case.record.reason})" for case in found[:5])
        _fail("ambiguous", f"{len(found)} cases fit: {names}", EXIT_NOTHING)
    frames = frames_of(found[0])
    return _Opened(found[0], frames, _asked(log, found[0], frames))


def _asked(log: AuditLog, case: Case, frames: Frames) -> Asked:
    """The toolset that the operation's manifest names, and whether its request forced a tool."""
    digest = None if frames.begin is None else frames.begin.manifest_digest
    wanted = [
        manifest
        for _, manifest in log.read("manifests", DispatchManifest)
        if digest == manifest.manifest_digest or (digest is None and manifest.operation_id == case.record.operation_id)
    ]
    forced = any(
        command.spec.options.tool_choice.mode == "forced"
        for _, command in log.read("sequences", SequenceCommand)
        if command.spec.operation_id == case.record.operation_id
    )
    if not wanted:
        return Asked(None, forced)
    if wanted[0].toolset_digest is None:
        return Asked({}, forced)
    for _, toolset in log.read("toolsets", Toolset):
        if toolset.toolset_digest == wanted[0].toolset_digest:
            return Asked({tool.name: json.loads(tool.input_schema) for tool in toolset.tools}, forced)
    return Asked(None, forced)


def _judged(opened: _Opened, pin: str | None) -> Report | None:
    """By the normaliser the manifest pinned, or the newest where this build has it no more."""
    if not opened.frames.events:
        return None
    for name in (pin, None):
        try:
            return judge(opened.frames, opened.asked, name)
        except UnknownNormaliser:
            continue
    return None


# -- saying ----------------------------------------------------------------------------------------------------


def _say_gaps(opened: _Opened) -> None:
    """What the reader of a finding must know: a gate that sees less finds other things."""
    if opened.frames.profile is not None and opened.asked.tools is None:
        typer.echo("note: the manifest or its toolset was not found: every call is judged as undeclared", err=True)
    if opened.frames.unread:
        typer.echo(f"note: {opened.frames.unread} of {len(opened.case.kept)} records hold no whole frame", err=True)
    elif opened.frames.profile is not None and not opened.frames.complete:
        typer.echo("note: not all frames of the relay were kept, so findings may differ", err=True)


def _note(event: str, case: Case) -> None:
    """One structured line on standard error: who saw the content of what. Never the content."""
    log = configure_logging(role="cli", instance=socket.gethostname())
    record = case.record
    log.warning(
        event, user=_user(), quarantine=case.ident, tenant=case.tenant, conversation=case.conversation,
        reason=record.reason, operation=record.operation_id, generation=record.generation, relay=record.relay,
        records=len(case.kept),
    )  # fmt: skip


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def _fail(code: str, message: str, exit_with: int) -> NoReturn:
    typer.echo(f"{code}: {message}", err=True)
    raise typer.Exit(exit_with)
