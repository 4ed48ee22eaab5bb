"""What the demo and the dev fleet tell: numbers instead of repetitions, whole digests, addresses to take over."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from turngate.cli.dev import environment, shown
from turngate.devstack.demo.scenario import script
from turngate.devstack.demo.summary import counted, show_manifests


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ([], "none"),
        (["missing_terminal"] * 3, "missing_terminal 3"),
        (["late_relay", "missing_terminal", "identity_collision", "missing_terminal"],
         "missing_terminal 2, identity_collision 1, late_relay 1"),
        ([None, "aborted", None], "no reason 2, aborted 1"),
    ],
)  # fmt: skip
def test_each_reason_is_named_once_with_its_number(reasons: Sequence[str | None], text: str) -> None:
    assert counted(reasons) == text


def test_a_narrow_terminal_cuts_no_digest() -> None:
    digest = "0123456789abcdef" * 4
    manifest = SimpleNamespace(manifest_digest=digest, operation_id="op-" + "a" * 61, request_bytes=1234)
    out = io.StringIO()
    show_manifests(Console(file=out, width=80), cast(Any, [manifest]))
    assert f"  1234 bytes  op-aaaaaaaaaaa  {digest}\n" in out.getvalue()


def test_no_answer_of_the_demo_says_a_thing_twice() -> None:
    for rule in script().rules:
        said = "".join(rule.plan.text)
        assert said[: len(said) // 2] != said[len(said) // 2 :], said


def test_the_addresses_of_a_dev_fleet_are_shell_lines(tmp_path: Path) -> None:
    stack = SimpleNamespace(kafka_bootstrap="127.0.0.1:1", redis_url="redis://u:p;w@127.0.0.1:2/0")
    fleet = SimpleNamespace(url=lambda name: f"http://127.0.0.1/{name}")
    (tmp_path / "env").write_text(environment(cast(Any, stack), cast(Any, fleet)))
    names = ("TURNGATE_KAFKA", "TURNGATE_REDIS", "PROVIDER", "EDGE")
    told = " ".join(f'"${name}"' for name in names)
    argv = ["sh", "-c", f". ./env; printf '%s\\n' {told}"]
    done = subprocess.run(argv, cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "127.0.0.1:1", "redis://u:p;w@127.0.0.1:2/0", "http://127.0.0.1/provider-sim", "http://127.0.0.1/edge",
    ]  # fmt: skip


def test_a_path_is_shown_as_one_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "a" / "env") == "a/env"
    assert shown(tmp_path.parent / "env") == str(tmp_path.parent / "env")
