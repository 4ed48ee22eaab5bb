"""A recorded stream judged as the fleet would judge it, as a plain report. Opens nothing and executes
nothing.

A fixture is a JSON object {profile, tool_schemas, chunks | events, tool_choice?, meta?}. Events are read by
their exact text inside the fixture, so what a parser would round or drop is still seen. Instead of events it may hold
a binary AWS event stream, in base64, as `eventstream_b64`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from turngate.domain.stream import rawjson
from turngate.domain.stream.assembler import Assembler
from turngate.domain.stream.eventstream import event_texts
from turngate.domain.stream.findings import Finding, UnknownNormaliser
from turngate.domain.stream.outcome import READING_FAULTS, Block, EndCause, Outcome, StreamEnd
from turngate.domain.stream.strict_json import integer
from turngate.domain.stream.toolset import compile_toolset

Report = dict[str, object]

EXIT_PASS, EXIT_FAIL, EXIT_NOT_APPLICABLE, EXIT_UNREADABLE = 0, 1, 2, 3
_EVENT_FIELDS = frozenset({"data", "event", "id", "retry"})
_WORST_FIRST = (EXIT_UNREADABLE, EXIT_FAIL, EXIT_NOT_APPLICABLE, EXIT_PASS)


class UnreadableFixture(ValueError):
    """The input is not a fixture; the message says what is wrong without quoting it."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A recorded stream.

    events: exact texts of the provider's payloads, in order. digest: sha256 of the input. fault: why a binary body
    could not be read to its end, a code of READING_FAULTS.
    """

    profile: str
    tool_schemas: Mapping[str, object]
    events: Sequence[str]
    tool_choice: str | None
    meta: object
    digest: str
    fault: str | None = None


def read_fixture(data: bytes) -> Fixture:
    """Read a fixture file. Raises UnreadableFixture."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        value: object = json.loads(text, parse_int=integer)
    except UnicodeDecodeError:
        raise UnreadableFixture("the file is not UTF-8") from None
    except (ValueError, RecursionError):
        raise UnreadableFixture("the file is not JSON") from None
    if not isinstance(value, dict):
        raise UnreadableFixture("a fixture is a JSON object")
    fields = cast("dict[str, object]", value)
    profile, schemas = fields.get("profile"), fields.get("tool_schemas", {})
    if not isinstance(profile, str):
        raise UnreadableFixture("field profile must be text")
    if not isinstance(schemas, dict):
        raise UnreadableFixture("field tool_schemas must be an object of schemas by tool name")
    events, fault = _events(text, fields)
    return Fixture(
        profile=profile,
        tool_schemas=cast("dict[str, object]", schemas),
        events=events,
        tool_choice=_choice(fields.get("tool_choice")),
        meta=fields.get("meta"),
        digest=hashlib.sha256(data).hexdigest(),
        fault=fault,
    )


def _events(text: str, fields: Mapping[str, object]) -> tuple[list[str], str | None]:
    """The events' texts, and why a binary body could not be read on."""
    present = [name for name in ("chunks", "events", "eventstream_b64") if name in fields]
    if present == ["eventstream_b64"]:
        try:
            return event_texts(base64.b64decode(str(fields["eventstream_b64"]), validate=True))
        except ValueError:
            raise UnreadableFixture("field eventstream_b64 must be base64") from None
    texts = rawjson.elements(text, (present[0],)) if len(present) == 1 else None
    if texts is None:
        raise UnreadableFixture("exactly one of the fields chunks and events must hold a list")
    fault = fields.get("fault")
    if fault is not None and (not isinstance(fault, str) or fault not in READING_FAULTS):
        raise UnreadableFixture("field fault must be a code of reading")
    return [_payload(item) for item in texts], fault if isinstance(fault, str) else None


def _payload(item: str) -> str:
    """The provider's payload: the element itself, the `data` of a server-sent event, or a bare sentinel."""
    if item.startswith('"'):
        return str(json.loads(item))
    if '"data"' in item:
        value: object = json.loads(item, parse_int=integer)
        if isinstance(value, dict) and "data" in value and cast("dict[str, object]", value).keys() <= _EVENT_FIELDS:
            data = cast("object", value["data"])
            return data if isinstance(data, str) else rawjson.slice_at(item, ("data",)) or item
    return item


def _choice(value: object) -> str | None:
    """`forced`, or the provider's own form of naming one tool."""
    if isinstance(value, dict):
        form = cast("dict[str, object]", value)
        return "forced" if form.get("type") in ("function", "tool") else None
    return value if isinstance(value, str) else None


def judge_fixture(fixture: Fixture) -> Report:
    """The report on one fixture."""
    try:
        assembler = Assembler(
            profile=fixture.profile,
            tools=compile_toolset(fixture.tool_schemas),
            tool_choice=fixture.tool_choice,
            alternatives="note",
        )
    except UnknownNormaliser as error:
        return _with_meta(failed(error.code, str(error), fixture.digest), fixture)
    assembler.feed(0, fixture.events)
    cause: EndCause = "eof" if fixture.fault is None else "reset"
    outcome = assembler.end(StreamEnd(cause, error_class=fixture.fault, count=len(fixture.events)))
    report = {**outcome_report(outcome, assembler.normaliser), "fixtureDigest": fixture.digest}
    return _with_meta(report, fixture)


def outcome_report(outcome: Outcome, normaliser: str) -> Report:
    """The report on what a gate said; without the digest of a fixture."""
    return {
        **_status(outcome),
        "calls": [_call(block) for block in outcome.calls],
        "findings": [_finding(finding) for finding in outcome.findings],
        "turn": {
            "verdict": outcome.verdict,
            "stop": outcome.stop,
            "text": outcome.text,
            "reasoning": outcome.reasoning,
            "usage": outcome.usage,
        },
        "normaliser": normaliser,
    }


def _with_meta(report: Report, fixture: Fixture) -> Report:
    return report if fixture.meta is None else {**report, "meta": fixture.meta}


def failed(code: str, message: str, digest: str | None = None) -> Report:
    """The report on an input that could not be judged; `code` is unreadable or unsupported_profile."""
    return {
        "status": "fail",
        "applicable": False,
        "executable": False,
        "code": code,
        "calls": [],
        "findings": [{"code": code, "severity": "error", "message": message}],
        "turn": {"verdict": "unknown", "stop": "unknown", "text": "", "reasoning": "", "usage": None},
        "normaliser": None,
        "fixtureDigest": digest,
    }


def exit_code(reports: Sequence[Report]) -> int:
    """Of several the worst, in the order unreadable, fail, not applicable, pass."""
    codes = {_exit_of(report) for report in reports}
    return next(code for code in _WORST_FIRST if code in codes)


def _exit_of(report: Report) -> int:
    if report.get("code") == "unreadable":
        return EXIT_UNREADABLE
    return {"pass": EXIT_PASS, "not_applicable": EXIT_NOT_APPLICABLE}.get(str(report["status"]), EXIT_FAIL)


def _status(outcome: Outcome) -> Report:
    commits = outcome.verdict == "commit"
    runs = commits and outcome.stop == "tool_calls" and bool(outcome.calls)
    status = "pass" if runs else "not_applicable" if commits else "fail"
    return {"status": status, "applicable": not (commits and not runs), "executable": runs}


def _call(block: Block) -> Report:
    return {
        "id": block.call_id,
        "name": block.name,
        "arguments": block.arguments,
        "argumentsRaw": block.arguments_raw,
        "slot": block.slot,
    }


def _finding(finding: Finding) -> Report:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "slot": finding.slot,
        "eventIndex": finding.event_index,
        "message": finding.message if finding.path is None else f"{finding.message} (at {finding.path or '/'})",
    }
