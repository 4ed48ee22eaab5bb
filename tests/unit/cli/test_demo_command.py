"""`turngate demo` where the stack does not come up: one line that says what to do, and an exit that is not 0."""

from __future__ import annotations

import pytest

from turngate.cli import demo
from turngate.cli.app import EXIT_FAILED, run_command_line
from turngate.devstack.errors import StackError


@pytest.mark.parametrize("tail", [":\nTraceback\n  line two", ""])
def test_a_role_that_is_not_ready_is_one_line(
    tail: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def not_ready(*_: object) -> int:
        raise StackError(f"observer: not ready within 60 s (still running); log /tmp/observer.log{tail}")

    monkeypatch.setattr(demo, "run_demo", not_ready)
    assert run_command_line(["demo"]) == EXIT_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert "observer: not ready within 60 s (still running); log /tmp/observer.log; read the log" in line
