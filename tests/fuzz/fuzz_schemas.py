"""Tool schemas to compile, and what must hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz_choices import Choices, require

from turngate.domain.stream import compile_toolset

_KEYS = (
    "type", "properties", "required", "items", "enum", "const", "anyOf", "allOf", "oneOf", "not", "if", "then",
    "else", "$ref", "$defs", "additionalProperties", "pattern", "patternProperties", "minimum", "maximum",
    "multipleOf", "minLength", "maxLength", "uniqueItems", "contains", "minContains", "prefixItems",
    "dependentSchemas", "dependentRequired", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "format",
    "title", "default", "$schema", "$comment",
)  # fmt: skip
_UNKNOWN = (
    "x-made-up", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor", "$recursiveRef", "$vocabulary", "dependencies",
    "nullable", "strict", "id", "Type",
)  # fmt: skip
_VALUES: Sequence[Any] = (
    "string", "object", "integer", "array", ["string", "null"], 0, 1, -1, 2.5, 10**20, True, False, None, "", "#",
    "#/$defs/a", "#/properties/a", "^(a+)+$", "(?=a)", "[", "\\p{L}", "(a)\\1",
    "https://json-schema.org/draft/2020-12/schema", ["a"], ["a", "a"], [], {}, "date",
)  # fmt: skip
_INSTANCES: Sequence[Any] = (
    {},
    {"a": 1},
    {"a": "x" * 50, "b": [1, 1]},
    {"a": {"a": {"a": []}}},
    {"a": None, "": 1e300},
)


def schema(data: bytes) -> None:
    choices = Choices(data)
    made = _schema(choices, 0)
    planted = choices.byte() == 0 and _plant(made, choices)
    tools = compile_toolset({"t": made})
    tool = tools.tools["t"]
    require(tools.supported == (tool.unsupported is None), "a refused schema without its finding")
    if planted:
        require(tool.unsupported is not None, "a keyword that is not on the list passed")
    if tool.unsupported is not None:
        require(tool.first_error({}) is not None, "a refused schema takes arguments")
        return
    for instance in _INSTANCES:
        tool.first_error(instance)


def _schema(choices: Choices, depth: int) -> Any:
    kind = choices.byte()
    if kind == 255 or depth > 6:
        return choices.pick([True, False])
    out: dict[str, Any] = {}
    for _ in range(choices.below(5)):
        key = choices.pick(_KEYS)
        if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            out[key] = {
                choices.pick(("a", "b", "^a", "")): _schema(choices, depth + 1) for _ in range(choices.below(3))
            }
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            out[key] = [_schema(choices, depth + 1) for _ in range(choices.below(3))]
        elif key in ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties"):
            out[key] = _schema(choices, depth + 1)
        else:
            out[key] = choices.pick(_VALUES)
    return out


def _plant(made: Any, choices: Choices) -> bool:
    """An unknown keyword in a place where a schema stands."""
    if not isinstance(made, dict):
        return False
    below = [made[key] for key in ("items", "not", "if", "then", "else", "contains") if isinstance(made.get(key), dict)]
    below += [one for key in ("anyOf", "allOf") for one in made.get(key, ()) if isinstance(one, dict)]
    below += [one for one in made.get("properties", {}).values() if isinstance(one, dict)]
    if below and choices.flag():
        return _plant(choices.pick(below), choices)
    made[choices.pick(_UNKNOWN)] = choices.pick(_VALUES)
    return True
