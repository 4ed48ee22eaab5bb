"""Bedrock streams by name through `turngate conformance`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.cli.app import run_command_line

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("name", "exit_code", "verdict", "stop", "codes"),
    [
        ("text-without-start", 0, "commit", "tool_calls", []),
        ("end-turn-with-call", 0, "commit", "tool_calls", []),
        ("server-tool-then-call", 0, "commit", "tool_calls", []),
        ("text-only", 2, "commit", "complete", []),
        ("guardrail", 2, "commit", "filtered", []),
        ("reused-index", 1, "blocked", "tool_calls", ["identity_collision"]),
        ("exception-after-stop", 1, "failed", "error", ["provider_error"]),
        ("malformed-tool-use", 1, "failed", "error", ["provider_error"]),
        ("max-tokens-after-whole-call", 1, "blocked", "truncated", ["wrong_terminal_reason"]),
        ("binary-call", 0, "commit", "tool_calls", []),
        ("binary-cut-frame", 1, "blocked", "tool_calls", ["missing_terminal"]),
        ("binary-bad-checksum", 1, "blocked", "tool_calls", ["missing_events"]),
        ("binary-exception", 1, "failed", "error", ["provider_error"]),
        ("cut-after-call", 1, "unknown", "unknown", ["missing_terminal"]),
    ],
)
def test_converse_streams(
    name: str, exit_code: int, verdict: str, stop: str, codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["conformance", str(FIXTURES / f"converse-{name}.json"), "--report", "json"]) == exit_code
    report = json.loads(capsys.readouterr().out)
    assert (report["turn"]["verdict"], report["turn"]["stop"]) == (verdict, stop)
    assert [f["code"] for f in report["findings"] if f["severity"] == "error"][: len(codes)] == codes
    assert report["normaliser"] == "bedrock@1"
    assert report["executable"] == (exit_code == 0)
    if exit_code == 0:
        assert [call["id"] for call in report["calls"]] == ["t1" if name == "binary-call" else "tooluse_f1"]
    else:
        assert report["calls"] == []
