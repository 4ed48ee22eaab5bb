"""The Mistral fixtures by name: verdict, stop class, exit code and error findings of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.domain.stream.conformance import exit_code, judge_fixture, read_fixture

FIXTURES = Path(__file__).parent / "fixtures"
WANTED: dict[str, tuple[int, str, str, set[str]]] = {
    "mistral-whole-calls-no-index": (0, "commit", "tool_calls", set()),
    "mistral-incremental-call": (0, "commit", "tool_calls", set()),
    "mistral-object-arguments": (0, "commit", "tool_calls", set()),
    "mistral-thinking-then-text": (2, "commit", "complete", set()),
    "mistral-null-id": (1, "blocked", "tool_calls", {"missing_identity"}),
    "mistral-reused-index": (1, "blocked", "tool_calls", {"identity_collision", "trailing_json"}),
    "mistral-cut-by-model-length": (1, "blocked", "truncated", {"wrong_terminal_reason"}),
    "mistral-empty-arguments": (1, "blocked", "tool_calls", {"malformed_json"}),
    "mistral-error-after-call": (1, "failed", "error", {"provider_error"}),
}


def test_every_fixture_is_named_here() -> None:
    assert {path.stem for path in FIXTURES.glob("mistral-*.json")} == set(WANTED)


@pytest.mark.parametrize("name", WANTED)
def test_fixture(name: str) -> None:
    report = judge_fixture(read_fixture((FIXTURES / f"{name}.json").read_bytes()))
    code, verdict, stop, codes = WANTED[name]
    turn, findings = report["turn"], report["findings"]
    assert isinstance(turn, dict)
    assert isinstance(findings, list)
    assert (exit_code([report]), turn["verdict"], turn["stop"]) == (code, verdict, stop)
    assert {finding["code"] for finding in findings if finding["severity"] == "error"} == codes


@pytest.mark.parametrize("name", [name for name, wanted in WANTED.items() if wanted[2] == "tool_calls"])
def test_cut_before_its_finish_a_call_never_runs(name: str) -> None:
    fixture = json.loads((FIXTURES / f"{name}.json").read_bytes())
    chunks = fixture["chunks"]
    last = next(n for n, item in enumerate(chunks) if item != "[DONE]" and item["choices"][0]["finish_reason"])
    for cut in range(last + 1):
        fixture["chunks"] = chunks[:cut]
        report = judge_fixture(read_fixture(json.dumps(fixture).encode()))
        assert (report["executable"], report["calls"]) == (False, [])
