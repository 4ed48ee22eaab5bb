"""docs/conformance.md lists what the code has: codes, verdicts, stop classes and faults."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from turngate.domain.stream.findings import GateCode
from turngate.domain.stream.operations import StopClass
from turngate.domain.stream.outcome import READING_FAULTS, Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first head this is."""
    _, _, behind = PAGE.partition(f"\n| {head} |")
    assert behind, head
    table = behind.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table]


def test_words() -> None:
    assert [row[0] for row in rows("`turn.verdict`")] == list(get_args(Verdict))
    assert [row[0] for row in rows("`turn.stop`")] == list(get_args(StopClass))
    assert [row[0] for row in rows("code of a finding")] == list(get_args(GateCode))
    assert {row[0]: row[1] for row in rows("`fault` | is found as")} == dict(READING_FAULTS)
