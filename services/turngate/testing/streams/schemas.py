"""Tool schemas by the thousand, and values to hold against them: in a small vocabulary, some of them malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

NAMES = ("a", "b", "a/b", "c~d", "")
VALUES: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 1.0, 1.5, -0.0, 1e300, 10**20, 10**25, 2**53, 2**53 + 1, float(2**53),
    "", "a", "ab", "é", "🌊", "👩🏽‍🚀", [], [1], [1, 1.0], [True, 1], [0, False], ["a", "a"], [[1], [1.0]],
    {}, {"a": 1}, {"a": "x", "b": [1, 2]}, {"b": {"a": None}}, {"a": {"a": {"a": 1}}}, [{"a": 1}, {"a": 1.0}],
    {"a/b": 1, "c~d": 2, "": 3},
)  # fmt: skip
TYPES: tuple[object, ...] = (
    "null", "boolean", "string", "array", "object", "number", "integer", ["string", "null"], ["integer", "object"],
)  # fmt: skip
BOUNDS: tuple[object, ...] = (0, 1, 1.5, -1, 1.0, 10**20, 2**53 + 1, 1e300)
SIZES: tuple[object, ...] = (0, 1, 2, 1.0, 3, 10**20)
REFERENCES = (
    "#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/properties/b", "#/definitions/a", "#/$defs/a~1b",
    "#/$defs/c~0d", "#/$defs/", "#/items", "#/allOf/0", "#/anyOf/1", "#/nope", "x",
)  # fmt: skip
MALFORMED: tuple[object, ...] = (
    None, True, -1, 0, 1, 1.5, "x", "object", [], ["a"], ["a", "a"], [1], {}, {"a": {}}, [{}], [{"type": "null"}],
    ["string", "null"], ["string", "string"], ["nope"],
)  # fmt: skip
LABELS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#", "x")


def schemas(random: Random, count: int) -> Iterator[object]:
    """`count` schemas, up to three levels deep."""
    for _ in range(count):
        yield _schema(random, 3)


def _schema(random: Random, levels: int) -> object:
    if levels == 0 or random.random() < 0.06:
        return random.choice([True, False])
    found: dict[str, object] = {}
    for _ in range(random.randint(0, 4)):
        keyword = random.choice(list(KEYWORDS))
        malformed = random.random() < 0.04
        found[keyword] = random.choice(MALFORMED) if malformed else KEYWORDS[keyword](random, levels - 1)
    return found


Draw = Callable[[Random, int], object]


def _one_of(*values: object) -> Draw:
    return lambda random, levels: random.choice(values)


def _some_of(values: tuple[object, ...]) -> Draw:
    return lambda random, levels: random.sample(values, random.randint(0, 3))


def _named(random: Random, levels: int) -> object:
    return {name: _schema(random, levels) for name in random.sample(NAMES, random.randint(0, 3))}


def _listed(random: Random, levels: int) -> object:
    return [_schema(random, levels) for _ in range(random.randint(1, 3))]


KEYWORDS: dict[str, Draw] = {
    "type": _one_of(*TYPES),
    "enum": _some_of(VALUES),
    "const": _one_of(*VALUES),
    "required": _some_of(NAMES),
    **dict.fromkeys(("properties", "$defs", "definitions"), _named),
    **dict.fromkeys(("additionalProperties", "items", "not"), _schema),
    **dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), _listed),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _one_of(*BOUNDS)),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _one_of(*SIZES)
    ),
    "uniqueItems": _one_of(True, False),
    "$ref": _one_of(*REFERENCES),
    "$schema": _one_of(*LABELS),
    "default": _one_of(*VALUES),
    "examples": _some_of(VALUES),
    **dict.fromkeys(("title", "description", "$comment", "format", "contentEncoding"), _one_of("x", "date-time", "")),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _one_of(True, False)),
}
