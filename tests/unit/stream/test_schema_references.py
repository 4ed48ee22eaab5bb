"""References to references may double with each step: such a schema is refused, for it would hold a worker up."""

from __future__ import annotations

import time

import pytest

from turngate.domain.stream import compile_schema
from turngate.domain.stream.toolschema import UNFOLDED_MAX


def doubling(keyword: str, steps: int) -> dict[str, object]:
    """A value is held against 3 * 2**(steps + 1) - 2 subschemas, counting each reference."""
    steps_of: dict[str, object] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(steps)
    }
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**steps_of, f"d{steps}": {"required": ["a"]}}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("steps", [9, 45, 60])
def test_what_unfolds_without_end_is_refused_at_once(keyword: str, steps: int) -> None:
    begin = time.process_time()
    tool = compile_schema(doubling(keyword, steps))
    assert time.process_time() - begin < 1.0
    assert tool.unsupported is not None
    assert f"more than {UNFOLDED_MAX} subschemas" in tool.unsupported.reason


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_what_unfolds_a_little_is_used(keyword: str) -> None:
    tool = compile_schema(doubling(keyword, 7))
    assert tool.unsupported is None
    begin = time.process_time()
    assert tool.first_error({}) is not None
    assert time.process_time() - begin < 1.0


def test_many_references_to_one_small_schema_are_used_as_far_as_they_are_written_out() -> None:
    many = [{"properties": {"a": {"const": n}}, "$ref": "#/$defs/d"} for n in range(600)]
    assert compile_schema({"type": "object", "anyOf": many, "$defs": {"d": {"required": ["a"]}}}).unsupported is None
    wide = {"anyOf": [{"$ref": "#/$defs/d"}] * 100, "$defs": {"d": {"allOf": [{"required": ["a"]}] * 50}}}
    refused = compile_schema(wide).unsupported
    assert refused is not None
    assert refused.path == ""
