"""The demo's last page gives numbers, not repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turngate.devstack.demo.summary import counted


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
