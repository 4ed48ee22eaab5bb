"""What providers name cannot forge a report, and closed or narrow standard streams are no crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turngate.cli.terminal import shown


def fixture(tmp_path: Path, ident: str) -> Path:
    call = {"index": 0, "id": ident, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    chunks = [
        {"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
        {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    file = tmp_path / "call.json"
    file.write_text(json.dumps({"profile": "openai", "tool_schemas": {"look": {}}, "chunks": chunks}))
    return file


def turngate(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m turngate.cli.main {command}"
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False, env=env)


def test_an_id_begins_no_line_and_moves_no_cursor(tmp_path: Path) -> None:
    file = fixture(tmp_path, "c1\nfail  other.json\x1b[2K\u202e")
    for more in ("", " --explain", " --report junit"):
        done = turngate(f"conformance {file}{more}", PYTHONIOENCODING="utf-8")
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout)
        assert not [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert shown("id=été 東京") == "id=été 東京"


def test_an_id_that_the_terminal_cannot_write_is_no_crash(tmp_path: Path) -> None:
    done = turngate(f"conformance {fixture(tmp_path, 'c東')}", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "id=c\\u6771" in done.stdout


@pytest.mark.parametrize("command", ["conformance -", "validate -", "render - --adapter openai-chat"])
def test_a_closed_standard_input_is_unreadable(command: str) -> None:
    done = turngate(f"{command} <&-")
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr


def test_a_closed_standard_output_changes_no_exit_code(tmp_path: Path) -> None:
    done = turngate(f"conformance {fixture(tmp_path, 'c1')} >&-")
    assert (done.returncode, done.stderr) == (0, "")
