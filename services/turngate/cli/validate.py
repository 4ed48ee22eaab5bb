"""`turngate validate FILE...`: histories and sequences through the graph rules. Opens no socket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, cast

import typer

from turngate.cli.terminal import read_input, shown
from turngate.domain.adapters.registry import AdapterError, UnknownAdapter, adapter, adapter_for_api
from turngate.domain.sequence import Candidate, judge_sequence
from turngate.domain.sequence.imported import ALIASES, Repair, judge_history, load_json, refuse_doubled_keys
from turngate.domain.sequence.rules import KINDS, encodable
from turngate.schemas.codec import decode
from turngate.schemas.errors import InvalidRecord, Refused, UnknownSchema
from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.requests import ToolChoice
from turngate.schemas.sequence import MessageSequence

EXIT_USAGE = 64
EXIT_CODES = {"READY": 0, "REJECTED": 1, "WAITING": 2, "PAUSED": 2}
EXIT_UNREADABLE = 3
_WORST_FIRST = (3, 1, 2, 0)
_FORMS = ("json", "text")
_REPAIRS: Mapping[str, Repair] = {"off": "off", "placeholder": "placeholder"}

Report = Mapping[str, object]


def register(app: typer.Typer) -> None:
    """Add the `validate` command."""
    app.command("validate")(validate)


def validate(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="Histories; - is standard input.")
    ] = None,
    report: Annotated[str, typer.Option("--report", help="json (one line a file) or text.")] = "text",
    profile: Annotated[
        str | None, typer.Option("--profile", help="API whose rules hold; else the file names it.")
    ] = None,
    repair: Annotated[str, typer.Option("--repair", help="off, or placeholder for calls without a result.")] = "off",
) -> None:
    """Say whether a history may be sent.

    FILE is a provider's own messages {profile, messages, system?, tools?} or a MessageSequence. Exit 0 READY,
    1 REJECTED, 2 WAITING or PAUSED, 3 unreadable; of several files the worst in the order 3, 1, 2, 0; 64
    wrong usage.
    """
    if not files:
        raise _usage("name at least one FILE (- reads standard input)")
    if report not in _FORMS:
        raise _usage("--report must be json or text")
    if repair not in _REPAIRS:
        raise _usage("--repair must be placeholder or off")
    judged = [judge_file(name, profile, _REPAIRS[repair]) for name in files]
    for name, (one, _) in zip(files, judged, strict=True):
        print(_line(one) if report == "json" else _text(name, one))
    codes = {code for _, code in judged}
    raise typer.Exit(next(code for code in _WORST_FIRST if code in codes))


def judge_file(name: str, profile: str | None, repair: Repair) -> tuple[Report, int]:
    """One file's report and exit code; whatever is wrong with the file is a report too."""
    try:
        data = read_input(name)
        return judge_bytes(data, profile, repair)
    except OSError as error:
        return _failed("unreadable", f"cannot read the file: {error.strerror or 'input error'}")
    except (InvalidRecord, UnknownSchema) as error:
        return _failed("unreadable", str(error))
    except Refused as error:
        return _failed(error.code, str(error))


def judge_bytes(data: bytes, profile: str | None, repair: Repair) -> tuple[Report, int]:
    """Raises InvalidRecord or UnknownSchema (unreadable) and Refused (unsupported_profile)."""
    plain = load_json(data)
    if isinstance(plain, list) and plain and profile is not None:
        plain = {"messages": plain}
    if not isinstance(plain, dict):
        raise InvalidRecord("the file holds neither a history nor a sequence")
    history = cast(dict[str, object], plain)
    if str(history.get("schema", "")).startswith("MessageSequence"):
        refuse_doubled_keys(history, in_arguments=True)
        candidate, named = _judge_sequence(data, history, profile)
    else:
        given = profile or history.get("profile")
        if not isinstance(given, str):
            raise Refused("the file names no profile and --profile is not given", code="unsupported_profile")
        named = given
        refuse_doubled_keys(history, in_arguments=False)
        candidate = judge_history(history, named, repair=repair).candidate
    out: dict[str, object] = {
        "verdict": candidate.verdict,
        "profile": ALIASES.get(named, named),
        "findings": [_plain(finding) for finding in candidate.findings],
    }
    if candidate.reason is not None:
        out["reason"] = candidate.reason
    return out, EXIT_CODES[candidate.verdict]


def _judge_sequence(data: bytes, plain: Mapping[str, object], profile: str | None) -> tuple[Candidate, str]:
    """The graph rules, then the target API's own; a kind its adapter does not know gives PAUSED."""
    early = tuple(_unreadable_blocks(plain.get("blocks")))
    if early:
        return Candidate("REJECTED", early), str(profile or plain.get("adapter"))
    sequence = decode(MessageSequence, data)
    try:
        target = adapter_for_api(profile) if profile is not None else adapter(sequence.adapter)
    except UnknownAdapter as error:
        raise Refused(str(error), code="unsupported_profile") from None
    candidate = judge_sequence(sequence)
    if candidate.verdict != "READY":
        return candidate, target.profile
    bare = sequence.model_copy(update={"toolset_digest": None, "tool_choice": ToolChoice()})
    try:
        findings = target.admission(bare, None)
    except AdapterError as error:
        found = Finding(code=error.code, message=str(error), source=target.name)
        return Candidate("PAUSED", (*candidate.findings, found), error.code), target.profile
    refused = any(one.severity == "error" for one in findings)
    return Candidate("REJECTED" if refused else "READY", (*candidate.findings, *findings)), target.profile


def _unreadable_blocks(blocks: object) -> Iterable[Finding]:
    """What no record can hold, found before the record is read so that it has its own code."""
    for index, block in enumerate(cast(Sequence[object], blocks) if isinstance(blocks, list) else ()):
        fields = cast(dict[str, object], block) if isinstance(block, dict) else {}
        content = fields.get("content")
        values = list(cast(dict[str, object], content).values()) if isinstance(content, dict) else []
        kind = fields.get("kind")
        if isinstance(kind, str) and kind not in KINDS:
            message, path = "this kind of block is not known", f"blocks/{index}/kind"
            yield Finding(code=HistoryCode.UNKNOWN_KIND, message=message, path=path)
        if any(isinstance(value, str) and not encodable(value) for value in [*values, *fields.values()]):
            message, path = "text holds half of a surrogate pair", f"blocks/{index}"
            yield Finding(code=HistoryCode.INVALID_UNICODE, message=message, path=path)


def _failed(code: str, message: str) -> tuple[Report, int]:
    finding = {"code": code, "severity": "error", "message": message}
    report = {"status": "fail", "code": code, "verdict": "REJECTED", "findings": [finding]}
    return report, EXIT_UNREADABLE if code == "unreadable" else EXIT_CODES["REJECTED"]


def _plain(finding: Finding) -> Mapping[str, object]:
    return finding.model_dump(mode="json", by_alias=True, exclude_none=True)


def _line(report: Report) -> str:
    return json.dumps(report, ensure_ascii=True, separators=(",", ":"))


def _text(name: str, report: Report) -> str:
    lines = [f"{report['verdict']}  {name}"]
    for finding in cast(Sequence[Mapping[str, object]], report["findings"]):
        where = finding.get("path", "")
        lines.append(f"  {finding['severity']}  {finding['code']}  {where}  {finding['message']}")
    return "\n".join(map(shown, lines))


def _usage(message: str) -> typer.Exit:
    print(f"turngate validate: {message}", file=sys.stderr)
    return typer.Exit(EXIT_USAGE)
