"""The Responses fixtures by name: verdict, stop class, exit code and findings of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from turngate.cli.app import run_command_line
from turngate.domain.stream.conformance import exit_code, judge_fixture, read_fixture

FIXTURES = Path(__file__).parent / "fixtures"
WANTED: dict[str, tuple[int, str, str, set[str]]] = {
    "interleaved-calls": (0, "commit", "tool_calls", set()),
    "arguments-only-at-the-end": (0, "commit", "tool_calls", set()),
    "without-numbers": (0, "commit", "tool_calls", set()),
    "rotating-ids": (0, "commit", "tool_calls", set()),
    "resumed-with-overlap": (0, "commit", "tool_calls", set()),
    "late-and-out-of-order": (0, "commit", "tool_calls", set()),
    "text-only": (2, "commit", "complete", set()),
    "hosted-tools": (2, "commit", "complete", set()),
    "refusal": (2, "commit", "complete", set()),
    "approval-request": (2, "commit", "paused", set()),
    "cut-text": (2, "commit", "truncated", set()),
    "filtered": (2, "commit", "filtered", set()),
    "gap": (1, "blocked", "tool_calls", {"missing_events", "malformed_json"}),
    "two-events-one-number": (1, "blocked", "tool_calls", {"identity_collision"}),
    "resumed-after-the-beginning": (1, "blocked", "tool_calls", {"missing_events", "missing_slot"}),
    "end-differs-from-deltas": (1, "blocked", "tool_calls", {"missing_events"}),
    "final-output-differs": (1, "blocked", "tool_calls", {"missing_events"}),
    "call-in-final-output-alone": (1, "blocked", "complete", {"missing_events"}),
    "cut-after-whole-call": (1, "blocked", "truncated", {"wrong_terminal_reason"}),
    "incomplete-call-in-completed": (1, "blocked", "tool_calls", {"missing_terminal"}),
    "completed-in-progress": (1, "blocked", "unknown", {"wrong_terminal_reason"}),
    "call-beside-approval-request": (1, "blocked", "paused", {"wrong_terminal_reason"}),
    "no-terminal": (1, "unknown", "unknown", {"missing_terminal"}),
    "failed-after-call": (1, "failed", "error", {"provider_error"}),
    "nested-error": (1, "failed", "error", {"provider_error"}),
    "flat-error-after-completed": (1, "failed", "error", {"provider_error"}),
    "reused-index": (1, "blocked", "tool_calls", {"identity_collision"}),
    "custom-call": (1, "blocked", "tool_calls", {"unknown_tool"}),
    "unknown-event-beside-call": (1, "blocked", "tool_calls", {"unknown_event"}),
    "delta-after-completed": (1, "blocked", "tool_calls", {"delta_after_terminal"}),
    "second-terminal": (1, "blocked", "tool_calls", {"duplicate_terminal"}),
}
TOLERATED = {
    "rotating-ids": {"identity_collision"},
    "hosted-tools": {"missing_terminal"},
    "resumed-after-the-beginning": {"missing_slot"},
}


def report_on(name: str) -> dict[str, object]:
    return judge_fixture(read_fixture((FIXTURES / f"responses-{name}.json").read_bytes()))


def codes(report: dict[str, object], severity: str) -> set[object]:
    findings = cast("list[dict[str, object]]", report["findings"])
    return {finding["code"] for finding in findings if finding["severity"] == severity}


def test_every_fixture_is_named_here() -> None:
    assert {path.stem for path in FIXTURES.glob("responses-*.json")} == {f"responses-{name}" for name in WANTED}


@pytest.mark.parametrize("name", WANTED)
def test_fixture(name: str) -> None:
    report = report_on(name)
    code, verdict, stop, wanted = WANTED[name]
    turn = cast("dict[str, object]", report["turn"])
    assert (exit_code([report]), turn["verdict"], turn["stop"]) == (code, verdict, stop)
    assert codes(report, "error") == wanted
    assert codes(report, "tolerated") == TOLERATED.get(name, set())
    assert report["normaliser"] == "openai-responses@1"


def test_interleaved_calls_keep_the_order_of_their_items() -> None:
    report = report_on("interleaved-calls")
    found = cast("list[dict[str, object]]", report["calls"])
    assert [(call["slot"], call["id"], call["argumentsRaw"]) for call in found] == [
        ("0/2", "call_a", '{"city":"Bergen"}'),
        ("0/3", "call_b", '{"city":"Bod\\u00f8","days":2}'),
    ]
    turn = cast("dict[str, object]", report["turn"])
    assert turn["text"] == "Two towns."
    assert turn["usage"] == {"input_tokens": 31, "output_tokens": 12, "total_tokens": 43}


def test_reasoning_summaries_are_reported_in_their_order() -> None:
    turn = cast("dict[str, object]", report_on("hosted-tools")["turn"])
    assert (turn["text"], turn["reasoning"]) == ("Dry.", "Look it up.Then tell.")


def test_a_bare_json_error_in_a_body_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server may answer 200 and put its error into the body as it is."""
    body, tools = tmp_path / "error.sse", tmp_path / "tools.json"
    tools.write_text("{}")
    body.write_text('{"error":{"type":"invalid_request_error","code":null,"message":"no","param":"input"}}\n')
    arguments = ["conformance", str(body), "--sse", "--profile", "openai-responses", "--tools", str(tools)]
    assert run_command_line([*arguments, "--report", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["turn"]["verdict"] == "failed"
    assert [finding["code"] for finding in report["findings"]] == ["provider_error"]
