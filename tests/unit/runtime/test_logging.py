"""Log lines: one JSON object each, the kind of an error and never its text."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator

import pytest
import structlog

from turngate.runtime.logging import configure_logging

Lines = Callable[[], list[dict[str, object]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What was logged so far, parsed."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    configure_logging(role="ledger", instance="ledger-0")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_library_error_is_one_line_with_the_kind_of_its_exception(lines: Lines) -> None:
    try:
        raise ValueError("secret-content")
    except ValueError:
        logging.getLogger("lib").exception("it went wrong")
    (line,) = lines()
    assert line["error"] == "ValueError"
    assert line["role"] == "ledger"
    assert "secret-content" not in json.dumps(line)


async def test_what_the_loop_reports_without_an_exception_is_logged(lines: Lines) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "socket.send() raised exception."})
    (line,) = lines()
    assert line["logger"] == "asyncio"
    assert "error" not in line


def test_below_warning_libraries_are_silent(lines: Lines) -> None:
    logging.getLogger("lib").info("chatter")
    assert lines() == []
