"""The Gemini fixtures by name, bodies framed as one JSON array, and errors that stand bare in a body."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from turngate.cli.app import run_command_line
from turngate.domain.stream.body import body_payloads
from turngate.domain.stream.conformance import Fixture, exit_code, judge_fixture, read_fixture
from turngate.domain.stream.sse_text import data_payloads

FIXTURES = Path(__file__).parent / "fixtures"
SCHEMAS: dict[str, object] = json.loads((FIXTURES / "tools.json").read_bytes())
WANTED: dict[str, tuple[int, str, str, set[str]]] = {
    "gemini-parallel-calls-without-ids": (0, "commit", "tool_calls", set()),
    "gemini-partial-arguments": (0, "commit", "tool_calls", set()),
    "gemini-partial-arguments-unflagged-end": (0, "commit", "tool_calls", set()),
    "gemini-call-after-text-stop": (0, "commit", "tool_calls", set()),
    "gemini-partial-arguments-never-ended": (1, "blocked", "tool_calls", {"missing_terminal", "malformed_json"}),
    "gemini-call-after-call-stop": (1, "blocked", "tool_calls", {"delta_after_terminal"}),
    "gemini-malformed-function-call": (1, "failed", "error", {"provider_error"}),
    "gemini-max-tokens-after-whole-call": (1, "blocked", "truncated", {"wrong_terminal_reason"}),
    "gemini-error-after-stop": (1, "failed", "error", {"provider_error"}),
    "gemini-cut-after-call": (1, "unknown", "unknown", {"missing_terminal"}),
    "gemini-blocked-prompt": (2, "commit", "filtered", set()),
    "gemini-continuation": (2, "commit", "paused", set()),
    "gemini-code-then-text": (2, "commit", "complete", set()),
    "gemini-unknown-finish-reason": (1, "blocked", "unknown", {"wrong_terminal_reason"}),
    "gemini-unknown-part-beside-call": (1, "blocked", "tool_calls", {"unknown_event"}),
}  # fmt: skip
Report = dict[str, object]


def errors(report: Report) -> set[object]:
    findings = cast("list[Report]", report["findings"])
    return {finding["code"] for finding in findings if finding["severity"] == "error"}


def test_every_fixture_is_named_here() -> None:
    assert {path.stem for path in FIXTURES.glob("gemini-*.json")} == set(WANTED)


@pytest.mark.parametrize("name", WANTED)
def test_fixture(name: str) -> None:
    report = judge_fixture(read_fixture((FIXTURES / f"{name}.json").read_bytes()))
    code, verdict, stop, codes = WANTED[name]
    turn = cast("Report", report["turn"])
    assert (exit_code([report]), turn["verdict"], turn["stop"]) == (code, verdict, stop)
    assert errors(report) == codes


def test_partial_arguments_in_full() -> None:
    report = judge_fixture(read_fixture((FIXTURES / "gemini-partial-arguments-unflagged-end.json").read_bytes()))
    (call,) = cast("list[Report]", report["calls"])
    assert call["id"] == "minted-f1-Rsp-0"
    assert call["argumentsRaw"] == '{"city":"Bodø","hours":[{"at":"06","rain":0.5},{"at":"12","rain":1.25}]}'


@pytest.mark.parametrize("name", [name for name, wanted in WANTED.items() if wanted[0] == 0])
def test_cut_anywhere_a_call_never_runs(name: str) -> None:
    fixture = json.loads((FIXTURES / f"{name}.json").read_bytes())
    chunks = fixture["chunks"]
    for cut in range(len(chunks)):
        fixture["chunks"] = chunks[:cut]
        report = judge_fixture(read_fixture(json.dumps(fixture).encode()))
        assert (report["executable"], report["calls"]) == (False, [])


def run(name: str, profile: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Report]:
    tools = str(FIXTURES / "tools.json")
    arguments = ["conformance", str(FIXTURES / name), "--sse", "--profile", profile, "--tools", tools]
    code = run_command_line([*arguments, "--report", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_body_that_is_one_json_array(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = run("gemini-array.body", "gemini", capsys)
    assert (code, errors(report)) == (0, set())
    (call,) = cast("list[Report]", report["calls"])
    assert call["arguments"] == {"city": "Bodø", "days": 2}
    assert run("gemini-array.body", "openai", capsys)[1]["executable"] is False


def test_an_array_that_is_cut_runs_nothing_wherever_it_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = run("gemini-array-cut.body", "gemini", capsys)
    assert (code, errors(report), report["executable"]) == (1, {"malformed_json"}, False)
    body = (FIXTURES / "gemini-array.body").read_bytes().strip()
    for cut in range(1, len(body)):
        if body[cut] & 0xC0 != 0x80:
            fixture = Fixture("gemini", SCHEMAS, body_payloads(body[:cut], "gemini"), None, None, "")
            assert judge_fixture(fixture)["executable"] is False


@pytest.mark.parametrize(
    ("body", "events"),
    [
        ("[]", []),
        (" [ ] ", []),
        ('\ufeff[1, {"a": [2]}\n]\n', ["1", '{"a": [2]}']),
        ("[1] x", ["1", "x"]),
        ("[1 2]", ["1", "2]"]),
        ("[1,]", ["1", "]"]),
        ("[", [""]),
        ("[" * 100_000, ["[" * 99_999]),
    ],
)
def test_elements_of_an_array_body(body: str, events: list[str]) -> None:
    assert body_payloads(body.encode(), "gemini") == events


def test_an_error_without_data_is_an_event_of_gemini_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = run("gemini-bare-error.body", "gemini", capsys)
    assert (code, errors(report), report["calls"]) == (1, {"provider_error"}, [])
    body = (FIXTURES / "gemini-bare-error.body").read_bytes()
    assert len(body_payloads(body, "gemini")) == 2
    assert len(body_payloads(body, "openai")) == 1
    assert len(body_payloads(body, "no-such-profile")) == 1


@pytest.mark.parametrize("body", [b'data: {"a":\ndata: {"b":1}}\n\n: x\n\n', b"event: e\ndata: 1\n\n", b""])
def test_a_body_without_bare_json_stays_as_it_is(body: bytes) -> None:
    assert body_payloads(body, "gemini") == data_payloads(body)


def test_a_bare_object_is_one_event() -> None:
    assert body_payloads(b'{\n "error": {}\n}', "gemini") == ['{\n "error": {}\n}']
