"""docs/conformance.md says what the command, the library call and the allow-list do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turngate.cli.app import run_command_line
from turngate.domain.stream import Limits, toolschema
from turngate.domain.stream.sse_text import EVENT_BYTES_MAX
from turngate.domain.stream.toolset import LONG_INTEGERS_MAX

if TYPE_CHECKING:
    from conftest import Fence

PAGE = "docs/conformance.md"
ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def block(fences: list[Fence], name: str) -> str:
    (found,) = (fence.text for fence in fences if fence.page == PAGE and fence.name == name)
    return found


def test_the_library_call_prints_what_the_page_shows(fences: list[Fence], tmp_path: Path) -> None:
    for name in ("call.json", "judge.py"):
        (tmp_path / name).write_text(block(fences, name))
    done = subprocess.run([sys.executable, "judge.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    (shown,) = (fence.text for fence in fences if fence.page == PAGE and fence.language == "text")
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def test_the_fixture_passes_explains_and_redacts(
    fences: list[Fence], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "call.json", tmp_path / "redacted.json"
    file.write_text(block(fences, "call.json"))
    assert run_command_line(["conformance", str(file), "--explain", "--redact", str(out)]) == 0
    assert "gate: terminal -> validated" in capsys.readouterr().out
    assert run_command_line(["conformance", str(out)]) == 0
    assert "Voss" not in out.read_text()


def test_the_second_gate_runs_as_the_page_says(fences: list[Fence], tmp_path: Path) -> None:
    (lines,) = (
        fence.text for fence in fences if fence.page == PAGE and "scripts/validate_tool_stream.py" in fence.text
    )
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "call.json").write_text(block(fences, "call.json"))
    done = subprocess.run(lines.splitlines()[0], shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["executable"]) == (0, True), done.stderr


def test_the_vocabulary_of_the_second_gate_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from plain_gate import tool_schema

    named = {word for row in table("") for word in re.findall(r"`([^`]+)`", row)}
    plain = tool_schema.PLAIN.keys() | {*tool_schema.NAMED_PARTS, *tool_schema.LISTED_PARTS, *tool_schema.SINGLE_PARTS}
    assert named == plain | {"$ref", "$schema"}


def table(first: str) -> list[str]:
    """The rows below a heading cell."""
    rows = TEXT.split(f"\n| {first} |" if first else "\n| |", 1)[1].splitlines()[2:]
    return rows[: next((place for place, row in enumerate(rows) if not row.startswith("|")), len(rows))]


def test_the_vocabulary_is_the_allow_lists() -> None:
    named = {word for row in table("keywords") for word in re.findall(r"`([^`]+)`", row.split(" | ")[0])}
    allowed = {
        *toolschema.PLAIN, *toolschema.ONE_SCHEMA_HERE, *toolschema.ONE_SCHEMA_BELOW, *toolschema.LIST_HERE,
        *toolschema.LIST_BELOW, *toolschema.MAP_HERE, *toolschema.MAP_BELOW, "$ref", "$schema",
    }  # fmt: skip
    assert named == allowed
    for keyword in sorted(allowed | {"$dynamicRef", "$anchor", "strict", "dependencies"}):
        refusal = toolschema.check_schema({keyword: None}, 2, frozenset())
        unknown = isinstance(refusal, toolschema.Unsupported) and "unsupported keyword" in refusal.reason
        assert unknown == (keyword not in named), keyword


def test_the_limits_are_the_codes() -> None:
    shown = [int(row.rsplit("|", 2)[1]) for row in table("limit")]
    limits = Limits()
    assert shown == [
        toolschema.SIZE_MAX_BYTES, toolschema.NODES_MAX, toolschema.UNFOLDED_MAX, toolschema.GROWTH_MAX,
        LONG_INTEGERS_MAX, toolschema.DEPTH_MAX, limits.turn_bytes, limits.arguments_bytes, limits.depth, limits.blocks,
        limits.identity_characters, limits.usage_characters, limits.window_events, limits.events, EVENT_BYTES_MAX,
    ]  # fmt: skip
