"""Canonical streams by name through `turngate conformance`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngate.cli.app import run_command_line

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("name", "exit_code", "codes"),
    [
        ("disordered-and-repeated", 0, []),
        ("text-only", 2, []),
        ("gap-at-turn-stop", 1, ["missing_events"]),
        ("other-generation", 1, ["identity_collision"]),
    ],
)
def test_canonical_streams(name: str, exit_code: int, codes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["conformance", str(FIXTURES / f"canonical-{name}.json"), "--report", "json"]) == exit_code
    report = json.loads(capsys.readouterr().out)
    assert report["normaliser"] == "canonical@1"
    assert [finding["code"] for finding in report["findings"]][: len(codes) or None] == codes
    assert [call["arguments"] for call in report["calls"]] == ([{"city": "Bergen"}] if exit_code == 0 else [])
