"""aiokafka's wait between two transactions has no option: it is a name of one of its modules."""

from __future__ import annotations

import inspect

import pytest
from aiokafka.producer import sender

from turngate.runtime.producer import BETWEEN_TRANSACTIONS_SECONDS, hurry_between_transactions


def test_the_name_is_there_and_is_what_aiokafka_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BACKOFF_OVERRIDE", 0.02)
    assert "return BACKOFF_OVERRIDE" in inspect.getsource(sender.AddPartitionsToTxnHandler)
    hurry_between_transactions()
    assert sender.BACKOFF_OVERRIDE == BETWEEN_TRANSACTIONS_SECONDS
