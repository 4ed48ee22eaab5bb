"""A tool's `pattern` runs in linear time: no text that a model writes can hold a worker up."""

from __future__ import annotations

import time

import pytest

from turngate.domain.stream import compile_schema

SECONDS_MAX = 1.0
ENDLESS = ["^(a+)+$", "^(a|aa)+$", "^(a*)*b$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "^(?:a?){40}a{40}$"]
"""Patterns that a backtracking engine tries in ever more ways, the longer the text."""


@pytest.mark.parametrize("pattern", ENDLESS)
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "propertyNames"])
def test_a_pattern_that_would_run_away_ends_at_once(pattern: str, keyword: str) -> None:
    text = "a" * 50_000 + "!"
    if keyword == "pattern":
        schema: object = {"type": "object", "properties": {"s": {"pattern": pattern}}}
        arguments: dict[str, object] = {"s": text}
    elif keyword == "patternProperties":
        schema, arguments = {"type": "object", "patternProperties": {pattern: True, "!$": False}}, {text: 1}
    else:
        schema, arguments = {"type": "object", "propertyNames": {"pattern": pattern}}, {text: 1}
    tool = compile_schema(schema)
    assert tool.unsupported is None
    begin = time.process_time()
    assert tool.first_error(arguments) is not None
    assert time.process_time() - begin < SECONDS_MAX


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "(?>a+)b"])
def test_what_no_linear_engine_can_do_is_refused(pattern: str) -> None:
    """This fails with an engine that goes back: it would take these, and be the one that can run away."""
    tool = compile_schema({"type": "object", "properties": {"s": {"pattern": pattern}}})
    assert tool.unsupported is not None
    assert tool.unsupported.path.endswith("/s/pattern")
