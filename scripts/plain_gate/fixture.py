"""A recorded stream and the report on it, in the form of `turngate conformance`.

A fixture is a JSON object {profile, tool_schemas, chunks | events, tool_choice?, fault?, meta?}. Its events are read
by their exact text, so that what a parser would round or drop is still seen.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from plain_gate.chat import ChatReader
from plain_gate.messages import MessagesReader
from plain_gate.strict_json import Refused, but_for_numbers, integer, members, read_value, text_at
from plain_gate.turn import Judgement, Rules, Turn

PROFILES = ("openai", "mistral", "anthropic")
DONE = "[DONE]"
"""Ends the body of a chat stream, and relays append it to others. It is no evidence of anything."""
EVENTS_MAX = 1_000_000
FAULTS = {
    "bad_checksum": "missing_events",
    "bad_frame": "missing_events",
    "cut_frame": "missing_terminal",
    "event_too_large": "too_large",
    "invalid_unicode": "invalid_unicode",
}
"""Why whoever recorded a body could not read it to its end -> the finding."""

Report = dict[str, Any]


class Unreadable(Exception):
    """The input is no fixture; the message says what is wrong without quoting it."""


class Unsupported(Exception):
    """A fixture of a profile that this script does not read."""


@dataclass(frozen=True)
class Fixture:
    """events: exact texts of the provider's payloads, in order. digest: sha256 of the file."""

    profile: str
    tool_schemas: dict[str, object]
    events: list[str]
    forced: bool
    fault: str | None
    meta: object
    digest: str


def report_on(data: bytes) -> Report:
    """The report on the bytes of one file. Never raises."""
    digest = hashlib.sha256(data).hexdigest()
    try:
        return judge(read_fixture(data))
    except Unreadable as error:
        return failed("unreadable", str(error), digest)
    except Unsupported as error:
        return failed("unsupported_profile", str(error), digest)


def read_fixture(data: bytes) -> Fixture:
    """Raises Unreadable or Unsupported."""
    try:
        text = data.decode().removeprefix("\ufeff")
        fields = json.loads(text, parse_int=integer)
    except UnicodeDecodeError:
        raise Unreadable("the file is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is not JSON") from None
    if not isinstance(fields, dict):
        raise Unreadable("a fixture is a JSON object")
    profile, schemas, fault = fields.get("profile"), fields.get("tool_schemas", {}), fields.get("fault")
    if not isinstance(profile, str):
        raise Unreadable("field profile must be text")
    if profile not in PROFILES:
        raise Unsupported(f"this script reads only the profiles {', '.join(PROFILES)}")
    if not isinstance(schemas, dict):
        raise Unreadable("field tool_schemas must be an object of schemas by tool name")
    lists = [name for name in ("chunks", "events", "eventstream_b64") if name in fields]
    if len(lists) != 1 or not isinstance(fields[lists[0]], list):
        raise Unreadable("exactly one of the fields chunks and events must hold a list")
    if fault is not None and (not isinstance(fault, str) or fault not in FAULTS):
        raise Unreadable("field fault must be a code of reading")
    choice = fields.get("tool_choice")
    return Fixture(
        profile=profile,
        tool_schemas=schemas,
        events=[payload(item) for _, item in members(text_at(text, lists[0]))],
        forced=choice == "forced" or (isinstance(choice, dict) and choice.get("type") in ("function", "tool")),
        fault=fault,
        meta=fields.get("meta"),
        digest=hashlib.sha256(data).hexdigest(),
    )


def payload(item: str) -> str:
    """What the provider sent: a string stands for its text, a server-sent event for its data, other JSON for itself."""
    value = json.loads(item, parse_int=integer)
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "data" in value and value.keys() <= {"data", "event", "id", "retry"}:
        return value["data"] if isinstance(value["data"], str) else text_at(item, "data")
    return item


def judge(fixture: Fixture) -> Report:
    """The report on one fixture. Never raises for what a stream holds."""
    is_chat = fixture.profile != "anthropic"
    turn = Turn(blocks_need_an_end=not is_chat)
    reader = ChatReader(turn, mistral=fixture.profile == "mistral") if is_chat else MessagesReader(turn)
    for turn.event, text in enumerate(fixture.events):
        if turn.event == EVENTS_MAX:
            turn.find("too_large", f"more than {EVENTS_MAX} events")
        if text == DONE:
            continue
        turn.takes_usage = True
        try:
            event, repeats_a_key = read_value(text)
            if repeats_a_key:
                turn.find("duplicate_key", "an object of the event names a key twice")
        except Refused as refused:
            turn.find(refused.code, f"event: {refused}")
            event, turn.takes_usage = but_for_numbers(text, refused.code), False
            if event is None:
                continue
        reader.read(event, text)
    rules = Rules(
        no_arguments="" if is_chat else "{}",
        forced=fixture.forced and fixture.profile == "openai",
    )
    found = Judgement(turn, fixture.tool_schemas, rules, FAULTS[fixture.fault] if fixture.fault else None)
    report = {
        "status": found.status,
        "applicable": found.status != "not_applicable",
        "executable": found.status == "pass",
        "calls": found.calls,
        "findings": turn.findings,
        "turn": {
            "verdict": found.verdict,
            "stop": found.stop,
            "text": found.text_of("text"),
            "reasoning": found.text_of("thinking"),
            "usage": turn.usage,
        },
        "normaliser": f"plain/{fixture.profile}@1",
        "fixtureDigest": fixture.digest,
    }
    return report if fixture.meta is None else {**report, "meta": fixture.meta}


def failed(code: str, message: str, digest: str | None = None) -> Report:
    """The report on an input that could not be judged."""
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
