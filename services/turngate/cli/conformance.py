"""`turngate conformance FILE...`: recorded streams through normaliser, slots and gate. Executes nothing,
opens no socket."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer

from turngate.cli.redacted import write_redacted
from turngate.cli.terminal import read_input, shown
from turngate.domain.stream.body import body_payloads
from turngate.domain.stream.conformance import (
    EXIT_UNREADABLE,
    Fixture,
    Report,
    UnreadableFixture,
    exit_code,
    failed,
    judge_fixture,
    read_fixture,
)
from turngate.domain.stream.eventstream import event_texts, is_event_stream
from turngate.domain.stream.explain import explain_fixture
from turngate.schemas.errors import Refused

EXIT_USAGE = 64
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FORMS = ("json", "text", "junit")


def register(app: typer.Typer) -> None:
    """Add the `conformance` command."""
    app.command("conformance")(conformance)


@dataclass(frozen=True, slots=True)
class _SseInput:
    """How a body is to be read: its profile and the tools it may call."""

    profile: str
    tool_schemas: Mapping[str, object]
    tool_choice: str | None


def conformance(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE...", help="Fixtures; - is standard input.")] = None,
    report: Annotated[str, typer.Option("--report", help="json (one line a file), text or junit.")] = "text",
    sse: Annotated[bool, typer.Option("--sse", help="The files are bodies as received; needs --profile.")] = False,
    profile: Annotated[str | None, typer.Option("--profile", help="Profile of the bodies.")] = None,
    tools: Annotated[Path | None, typer.Option("--tools", help="With --sse: JSON file {tool name: schema}.")] = None,
    forced: Annotated[bool, typer.Option("--forced", help="With --sse: the request forced one tool.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also each slot's history; beside json and junit on standard error.")
    ] = False,
    redact: Annotated[
        Path | None,
        typer.Option("--redact", help="Write fixtures with placeholders: a file, or for several files a folder."),
    ] = None,
) -> None:
    """Judge recorded provider streams as the fleet would.

    A body (--sse) is text of server-sent events or a binary AWS event stream; its first bytes tell.

    Exit 0 every stream passes, 1 one fails, 2 one holds no tool calls, 3 one is unreadable (worst first: 3,
    1, 2, 0); 64 wrong usage. Only status=pass, applicable=true and executable=true permit a hand-over.
    """
    if not files:
        raise _usage("name at least one FILE (- reads standard input)")
    if report not in _FORMS:
        raise _usage("--report must be json, text or junit")
    if sse != (profile is not None):
        raise _usage("--sse and --profile go together")
    if not sse and (tools is not None or forced):
        raise _usage("--tools and --forced go with --sse; a fixture names its own")
    source = None
    if profile is not None:
        source = _SseInput(profile, _read_tools(tools), "forced" if forced else None)
    loaded = [_load(name, source) for name in files]
    reports = [judge_fixture(one) if isinstance(one, Fixture) else one for one in loaded]
    told = [explain_fixture(one) if explain and isinstance(one, Fixture) else [] for one in loaded]
    _print_reports(report, files, reports, told)
    code = exit_code(reports)
    if redact is not None and not write_redacted(
        redact, files, [o if isinstance(o, Fixture) else None for o in loaded]
    ):
        code = EXIT_UNREADABLE
    raise typer.Exit(code)


def _usage(message: str) -> typer.Exit:
    print(f"turngate conformance: {message}", file=sys.stderr)
    return typer.Exit(EXIT_USAGE)


def _read_tools(path: Path | None) -> Mapping[str, object]:
    if path is None:
        return {}
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _usage("--tools must name a readable JSON object of schemas by tool name")
    return cast("dict[str, object]", value)


def _load(name: str, source: _SseInput | None) -> Fixture | Report:
    """One file's fixture; whatever is wrong with the file is a report too."""
    try:
        data = read_input(name)
    except OSError as error:
        return failed("unreadable", f"cannot read the file: {error.strerror or 'input error'}")
    digest = hashlib.sha256(data).hexdigest()
    try:
        return read_fixture(data) if source is None else _body_fixture(data, digest, source)
    except UnreadableFixture as error:
        return failed("unreadable", str(error), digest)


def _body_fixture(data: bytes, digest: str, source: _SseInput) -> Fixture:
    if is_event_stream(data):
        texts, fault = event_texts(data)
        return Fixture(source.profile, source.tool_schemas, texts, source.tool_choice, None, digest, fault)
    try:
        events = body_payloads(data, source.profile)
    except Refused:
        raise UnreadableFixture("the file is not UTF-8") from None
    return Fixture(source.profile, source.tool_schemas, events, source.tool_choice, None, digest)


def _print_reports(form: str, files: Sequence[str], reports: Sequence[Report], told: Sequence[Sequence[str]]) -> None:
    if form != "text":
        for name, lines in zip(files, told, strict=True):
            if lines:
                print("\n".join((shown(name), *(f"  {shown(line)}" for line in lines))), file=sys.stderr)
    if form == "json":
        for report in reports:
            print(json.dumps(report, ensure_ascii=True, separators=(",", ":")))
    elif form == "junit":
        print(_junit(files, reports))
    else:
        for name, report, lines in zip(files, reports, told, strict=True):
            print("\n".join((_text(name, report), *(f"  {shown(line)}" for line in lines))))


def _findings(report: Report) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", report["findings"])


def _text(name: str, report: Report) -> str:
    turn = cast("Mapping[str, object]", report["turn"])
    calls = cast("list[Mapping[str, object]]", report["calls"])
    lines = [f"{report['status']}  {name}  verdict={turn['verdict']} stop={turn['stop']} calls={len(calls)}"]
    lines += [f"  call {call['slot']}  {call['name']}  id={call['id']}" for call in calls]
    for finding in _findings(report):
        where = " ".join(f"{key}={finding[key]}" for key in ("slot", "eventIndex") if finding.get(key) is not None)
        lines.append(f"  {finding['severity']}  {finding['code']}  {finding['message']}{'  ' + where if where else ''}")
    return "\n".join(map(shown, lines))


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold at all; names of files and calls may have some."""
    return _NOT_XML.sub("\ufffd", text)


def _junit(files: Sequence[str], reports: Sequence[Report]) -> str:
    statuses = [str(report["status"]) for report in reports]
    suite = ElementTree.Element(
        "testsuite",
        name="turngate conformance",
        tests=str(len(reports)),
        failures=str(statuses.count("fail")),
        skipped=str(statuses.count("not_applicable")),
    )
    for name, report, status in zip(files, reports, statuses, strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname="conformance", name=_xml(name))
        codes = [str(f["code"]) for f in _findings(report) if f["severity"] == "error"]
        if status == "fail":
            failure = ElementTree.SubElement(case, "failure", message=", ".join(codes) or "not executable")
            failure.text = _xml(_text(name, report))
        elif status == "not_applicable":
            ElementTree.SubElement(case, "skipped", message="no tool calls")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
