"""What `turngate conformance` promises whoever acts on its answer, through the command, with sockets forbidden."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"

Report = dict[str, object]
BERGEN = '{"city":"Bergen"}'


def turngate(*arguments: str, standard_input: bytes | None = None) -> tuple[int, list[Report]]:
    """Exit code and reports of the command in a process of its own that may open no socket."""
    command = [sys.executable, str(HERE / "without_sockets.py"), *arguments]
    done = subprocess.run(command, input=standard_input, capture_output=True, timeout=120, check=False)
    assert done.stderr == b""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def conformance(*names: str) -> tuple[int, list[Report]]:
    return turngate("conformance", *(str(FIXTURES / name) for name in names), "--report", "json")


def calls(report: Report) -> list[tuple[object, object, object]]:
    found = cast("list[Report]", report["calls"])
    return [(call["id"], call["name"], call["argumentsRaw"]) for call in found]


def codes(report: Report, severity: str = "error") -> set[object]:
    findings = cast("list[Report]", report["findings"])
    return {finding["code"] for finding in findings if finding["severity"] == severity}


def test_the_guard_ends_a_process_that_opens_a_socket() -> None:
    command = [sys.executable, str(HERE / "without_sockets.py"), "--attempt"]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 99
    assert b"forbidden: socket." in done.stderr


# -- the promises --------------------------------------------------------------------------------------------


def test_a_valid_fragmented_call_exits_0_with_exact_id_name_and_arguments() -> None:
    code, (report,) = conformance("chat-fragmented-call.json")
    assert code == 0
    assert (report["status"], report["applicable"], report["executable"]) == ("pass", True, True)
    assert calls(report) == [("call_7", "forecast", '{"city":"Tromsø","days":3}')]
    assert [call["arguments"] for call in cast("list[Report]", report["calls"])] == [{"city": "Tromsø", "days": 3}]
    assert report["findings"] == []


def test_a_reused_slot_exits_1_with_identity_collision_and_executes_nothing() -> None:
    code, (report,) = conformance("chat-reused-slot.json")
    assert code == 1
    assert (report["status"], report["executable"], report["calls"]) == ("fail", False, [])
    assert codes(report) == {"identity_collision"}


def test_text_alone_exits_2() -> None:
    code, (report,) = conformance("chat-text-only.json")
    assert code == 2
    assert (report["status"], report["applicable"], report["executable"]) == ("not_applicable", False, False)
    assert report["calls"] == []


@dataclass(frozen=True)
class Good:
    """A stream that runs: its calls as (id, name, exact arguments), and what is marked as tolerated."""

    kind: str
    calls: tuple[tuple[str, str, str], ...]
    tolerated: frozenset[str] = frozenset()


GOOD = {
    "chat-fragmented-call": Good("fragmented JSON", (("call_7", "forecast", '{"city":"Tromsø","days":3}'),)),
    "chat-interleaved-calls": Good(
        "interleaved calls",
        (("call_a", "forecast", BERGEN), ("call_b", "forecast", '{"city":"Bodø","days":2}')),
    ),
    "messages-interleaved-calls": Good(
        "interleaved calls",
        (("toolu_a", "forecast", BERGEN), ("toolu_b", "forecast", '{"city":"Bod\\u00f8"}')),
    ),
    "compat-delayed-id": Good("delayed id", (("call_a", "forecast", BERGEN),), frozenset({"missing_identity"})),
    "compat-delayed-name": Good("delayed name", (("call_a", "forecast", BERGEN),), frozenset({"missing_identity"})),
    "chat-empty-deltas": Good("empty deltas", (("call_a", "forecast", BERGEN),)),
    "chat-unicode-split": Good(
        "Unicode text split inside a character",
        (("call_a", "forecast", '{"city":"Troms\\u00f8 \\ud83d\\ude00 🌊"}'),),
    ),
    "chat-growing-prefix": Good("parseable prefix that grows", (("call_a", "forecast", BERGEN + " \n "),)),
    "responses-interleaved-calls": Good(
        "interleaved calls",
        (("call_a", "forecast", BERGEN), ("call_b", "forecast", '{"city":"Bod\\u00f8","days":2}')),
    ),
    "responses-arguments-only-at-the-end": Good("arguments only at the end", (("call_a", "forecast", BERGEN),)),
    "messages-no-arguments": Good("a tool without arguments", (("toolu_a", "now", ""),)),
}

BAD = {
    "chat-delayed-id": ("delayed id, strict", "missing_identity"),
    "chat-delayed-name": ("delayed name, strict", "missing_identity"),
    "chat-half-character-in-event": ("half a character in an event", "invalid_unicode"),
    "chat-lone-surrogate": ("lone surrogate", "invalid_unicode"),
    "chat-reused-slot": ("reused index", "identity_collision"),
    "messages-reused-index": ("reused index", "identity_collision"),
    "responses-reused-index": ("reused index", "identity_collision"),
    "responses-end-differs-from-deltas": ("an end that differs from its deltas", "missing_events"),
    "responses-gap": ("a gap in the provider's numbers", "missing_events"),
    "responses-cut-after-whole-call": ("truncation", "wrong_terminal_reason"),
    "responses-no-terminal": ("truncation", "missing_terminal"),
    "responses-delta-after-completed": ("delta after terminal", "delta_after_terminal"),
    "responses-second-terminal": ("duplicate terminal", "duplicate_terminal"),
    "responses-unknown-event-beside-call": ("unknown event beside a call", "unknown_event"),
    "responses-flat-error-after-completed": ("error after the terminal", "provider_error"),
    "chat-open-prefix": ("parseable prefix, still open", "missing_terminal"),
    "chat-malformed-json": ("malformed JSON", "malformed_json"),
    "chat-trailing-document": ("trailing document", "trailing_json"),
    "chat-duplicate-key": ("duplicate key", "duplicate_key"),
    "chat-nan": ("NaN", "non_finite_number"),
    "chat-infinity": ("Infinity", "non_finite_number"),
    "chat-number-beyond-double": ("a number beyond a double", "non_finite_number"),
    "chat-non-object": ("non-object", "non_object_arguments"),
    "chat-schema-invalid": ("schema-invalid final object", "schema_invalid"),
    "chat-unknown-tool": ("unknown tool", "unknown_tool"),
    "chat-unsupported-keyword": ("unsupported keyword", "unsupported_schema"),
    "chat-duplicate-terminal": ("duplicate terminal", "duplicate_terminal"),
    "chat-delta-after-terminal": ("delta after terminal", "delta_after_terminal"),
    "messages-delta-after-stop": ("delta after terminal", "delta_after_terminal"),
    "chat-wrong-terminal-reason": ("wrong terminal reason", "wrong_terminal_reason"),
    "chat-content-filter-after-call": ("wrong terminal reason", "wrong_terminal_reason"),
    "chat-length-after-whole-call": ("truncation", "wrong_terminal_reason"),
    "chat-no-finish": ("truncation", "missing_terminal"),
    "messages-cut-inside-arguments": ("truncation", "missing_terminal"),
    "messages-no-message-stop": ("truncation", "missing_terminal"),
    "chat-missing-index": ("missing index", "missing_slot"),
    "chat-repeated-call-id": ("repeated call id", "duplicate_call_id"),
    "chat-two-choices": ("two choices with calls", "multiple_choices"),
    "chat-unknown-event": ("unknown event beside a call", "unknown_event"),
    "chat-error-after-terminal": ("error after the terminal", "provider_error"),
    "messages-overloaded-after-stop": ("error after the terminal", "provider_error"),
    "chat-nested-too-deep": ("nesting", "too_large"),
}

KINDS = (
    "fragmented JSON", "interleaved calls", "delayed id", "delayed name", "empty deltas",
    "Unicode text split inside a character", "reused index", "parseable prefix that grows", "malformed JSON",
    "trailing document", "NaN", "Infinity", "non-object", "schema-invalid final object", "unknown tool",
    "unsupported keyword", "duplicate terminal", "delta after terminal", "wrong terminal reason", "truncation",
)  # fmt: skip


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """The report on every fixture of the two tables, from one run of the command."""
    names = [*GOOD, *BAD]
    code, found = conformance(*(f"{name}.json" for name in names))
    assert code == 1
    return dict(zip(names, found, strict=True))


def test_every_kind_has_a_fixture() -> None:
    assert {good.kind for good in GOOD.values()} | {kind for kind, _ in BAD.values()} >= set(KINDS)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_stream_passes_with_its_exact_calls(name: str, reports: dict[str, Report]) -> None:
    report, wanted = reports[name], GOOD[name]
    assert (report["status"], report["applicable"], report["executable"]) == ("pass", True, True)
    assert calls(report) == list(wanted.calls)
    assert codes(report) == set()
    assert codes(report, "tolerated") == wanted.tolerated
    for call in cast("list[Report]", report["calls"]):
        assert call["arguments"] == json.loads(str(call["argumentsRaw"]) or "{}")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_stream_fails_closed(name: str, reports: dict[str, Report]) -> None:
    report, (_, code) = reports[name], BAD[name]
    assert (report["status"], report["executable"], report["calls"]) == ("fail", False, [])
    assert cast("Report", report["turn"])["verdict"] != "commit"
    assert code in codes(report)


@pytest.mark.parametrize("name", ["chat-malformed-json", "chat-no-finish", "chat-error-after-terminal"])
def test_a_bad_stream_exits_1_blocked_unfinished_or_failed(name: str) -> None:
    assert conformance(f"{name}.json")[0] == 1


def test_an_unreadable_file_exits_3_and_an_unknown_profile_1() -> None:
    assert conformance("not-json.json")[0] == 3
    assert conformance("unsupported-profile.json")[0] == 1


def test_raw_sse_keeps_every_byte_and_cut_inside_a_character_runs_nothing() -> None:
    body = (FIXTURES / "chat-unicode-split.sse").read_bytes()
    tools = str(FIXTURES / "tools.json")
    arguments = ("conformance", "-", "--sse", "--profile", "openai", "--tools", tools, "--report", "json")
    code, (report,) = turngate(*arguments, standard_input=body)
    assert code == 0
    assert calls(report) == [("call_a", "forecast", '{"city":"Tromsø \\ud83d\\ude00 🌊"}')]
    assert cast("Report", report["turn"])["text"] == "før 🌊"
    wave = body.index("🌊".encode())
    code, (report,) = turngate(*arguments, standard_input=body[: wave + 2])
    assert (code, report["executable"], report["calls"]) == (1, False, [])
