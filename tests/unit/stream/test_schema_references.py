"""References to references may double with each step: such a schema is refused, for it would hold a worker up."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from turngate.domain.stream import compile_schema
from turngate.domain.stream.toolschema import GROWTH_MAX, UNFOLDED_MAX
from turngate.domain.stream.toolset import LONG_INTEGERS_MAX


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


def twice_below(steps: int, *, cyclic: bool) -> dict[str, object]:
    """Each step down into the value doubles what it is held against; at the end nothing, or the beginning again."""

    def alternatives(name: str) -> dict[str, object]:
        one: dict[str, object] = {
            "type": "object",
            "properties": {"c": {"$ref": f"#/$defs/{name}"}},
            "required": ["c"],
        }
        return {"anyOf": [one, dict(one)]}

    defs: dict[str, object] = {f"d{n}": alternatives(f"d{n + 1}") for n in range(steps)}
    defs[f"d{steps}"] = alternatives("d0") if cyclic else {"type": "string"}
    return {"type": "object", "properties": {"c": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def nested(depth: int) -> dict[str, object]:
    value: object = 1
    for _ in range(depth):
        value = {"c": value}
    return {"c": value}


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize(("steps", "refused"), [(6, False), (30, True), (300, True)])
def test_what_doubles_with_every_step_down_is_refused(steps: int, refused: bool, cyclic: bool) -> None:
    begin = time.process_time()
    tool = compile_schema(twice_below(steps, cyclic=cyclic))
    assert (tool.unsupported is not None) == refused
    if tool.unsupported is None:
        assert tool.first_error(nested(60)) is not None
    else:
        assert f"more than {GROWTH_MAX} subschemas on one path" in tool.unsupported.reason
    assert time.process_time() - begin < 2.0


@pytest.mark.parametrize("alternatives", [2, 5])
def test_a_schema_that_is_entered_from_inside_itself_takes_no_time(alternatives: int) -> None:
    again = {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["c"]}
    both: dict[str, object] = {"anyOf": [*(dict(again) for _ in range(alternatives)), {"type": "string"}]}
    tool = compile_schema({"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}, "$defs": {"n": both}})
    assert tool.unsupported is None
    begin = time.process_time()
    assert tool.first_error(nested(60)) == ""  # which of the places is broken is not told
    assert time.process_time() - begin < 1.0


def test_many_schemas_that_refer_to_each_other_by_other_keys_are_used() -> None:
    names = [f"d{n}" for n in range(40)]
    all_of_them = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    defs = {name: {"type": "object", "properties": all_of_them} for name in names}
    assert compile_schema({"$ref": "#/$defs/d0", "$defs": defs}).unsupported is None


@pytest.mark.parametrize("item", [lambda n: n, lambda n: {"a": [n]}])
def test_integers_that_are_compared_each_with_each_are_few(item: Callable[[int], object]) -> None:
    schema = {"type": "object", "properties": {"ids": {"type": "array", "uniqueItems": True}}}
    tool = compile_schema(schema)
    long = [item(2**64 + n) for n in range(LONG_INTEGERS_MAX + 1)]
    assert tool.compares_too_much({"ids": long})
    assert not tool.compares_too_much({"ids": long[1:]})
    assert not tool.compares_too_much({"ids": [item(n) for n in range(20_000)]})
    assert not compile_schema({"type": "object"}).compares_too_much({"ids": long})
