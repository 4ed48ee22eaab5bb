"""Unit tests know no stack: what the suite runs on must not change what they see."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNGATE_KAFKA", "TURNGATE_REDIS", "TURNGATE_STACK_CONTROL", "TURNGATE_BROKER_NAME"):
        monkeypatch.delenv(name, raising=False)
