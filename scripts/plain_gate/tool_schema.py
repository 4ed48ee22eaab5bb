"""Tool schemas: a conservative subset of JSON Schema 2020-12.

A schema is read whole before a value is held against it. What the subset does not know, anywhere in the schema, refuses
it as `unsupported_schema`: `pattern`, `multipleOf`, `if`, references to other documents and the rest may be right, but
this reader does not claim that they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

from plain_gate.strict_json import Refused

DEPTH_MAX = 64
PARTS_MAX = 10_000
UNFOLDED_MAX = 1_024
STEPS_MAX = 1_000_000
"""Parts of a schema held against a value, all told; references can multiply them without end."""
GROWTH_MAX = 10_000
"""Parts of a schema that one path into a value may be held against, however deep it goes."""
LONG_INTEGERS_MAX = 500
"""Integers of more than 64 bits, in the arguments of a tool whose schema says `uniqueItems`."""
CHARACTERS_MAX = 262_144


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """1.0 is an integer too."""
    return is_number(value) and value % 1 == 0  # type: ignore[operator]


TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": is_number,
    "integer": is_integer,
}

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
}
"""Accepted at the root as a label: what is in the subset means the same in all three."""

# What a keyword's own value must look like. Annotations say nothing about a value, `format` among them.
PLAIN: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("title", "description", "$comment", "format", "contentEncoding", "contentMediaType"), TYPES["string"]
    ),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), TYPES["boolean"]),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        lambda value: is_integer(value) and value >= 0,
    ),
    "type": lambda value: isinstance(value, str | list) and type_names(value) is not None,
    "required": lambda value: isinstance(value, list) and texts_once_each(value),
    "enum": TYPES["array"],
    "examples": TYPES["array"],
    "const": lambda value: True,
    "default": lambda value: True,
}
NAMED_PARTS = ("properties", "$defs", "definitions")
LISTED_PARTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE_PARTS = ("not", "items", "additionalProperties")
SAME_VALUE = ("allOf", "anyOf", "oneOf", "not")
"""Keywords whose parts judge the same value; the parts of the others judge what lies below it."""


Grown = tuple[int, dict[str, int]]
"""How many schemas judge one value, and how many what lies below it, by key."""
BELOW = {"items": "item", "prefixItems": "item", "properties": "member", "additionalProperties": "member"}
"""Of the keywords whose parts judge what lies below: what they judge. A name or a place follows behind a slash."""


def texts_once_each(names: list[Any]) -> bool:
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def type_names(value: str | list[Any]) -> list[str] | None:
    """The types that `type` allows; None where it is no proper `type`."""
    names = [value] if isinstance(value, str) else value
    return names if names and texts_once_each(names) and all(name in TYPES for name in names) else None


class ToolSchema:
    """One tool's schema. Raises Refused (`unsupported_schema`) unless every part of it is in the subset."""

    def __init__(self, schema: object) -> None:
        self._parts: dict[str, Any] = {}  # every schema in this document by its place, e.g. "#/properties/city"
        self._same_value: dict[str, list[str]] = {}  # the places of the schemas that judge the same value
        self._below: dict[str, list[tuple[str, str]]] = {}  # and of those that judge what is below: key, place
        self._unique_items = False
        self._references: list[str] = []
        self._steps = 0
        self._said: dict[tuple[str, int], bool] = {}  # of a place and a value: whether it was valid there
        try:
            characters = len(json.dumps(schema, allow_nan=False))
            json.dumps(schema, ensure_ascii=False).encode()
        except (ValueError, RecursionError):  # NaN, half a character
            raise Refused("unsupported_schema", "the schema is not plain JSON, or nested too deeply") from None
        if characters > CHARACTERS_MAX:
            raise Refused("unsupported_schema", "the schema is too large")
        self._read(schema, "#", 0)
        for target in self._references:
            if target not in self._parts:
                raise Refused("unsupported_schema", "a reference leads to no schema of this document")
        sizes: dict[str, int] = {}
        try:
            for place in self._same_value:
                self._follow(place, frozenset(), sizes)
            if self._references and on_one_path(self._grow("#", set(), {})) > GROWTH_MAX:
                raise Refused("unsupported_schema", "references lead to too many schemas on one path into a value")
        except RecursionError:
            raise Refused("unsupported_schema", "references lead from one to the next too often") from None

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, schema: object, place: str, level: int) -> None:
        if level > DEPTH_MAX or len(self._parts) >= PARTS_MAX:
            raise Refused("unsupported_schema", "the schema is nested too deeply, or has too many parts")
        self._parts[place] = schema
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise Refused("unsupported_schema", "a schema is an object or a boolean")
        for keyword, value in schema.items():
            for step, part in self._parts_of(keyword, value, place):
                below = f"{place}/{keyword}{step}"
                if keyword in SAME_VALUE:
                    self._same_value.setdefault(place, []).append(below)
                elif keyword in BELOW:
                    self._below.setdefault(place, []).append((BELOW[keyword] + step, below))
                self._read(part, below, level + 1)

    def _parts_of(self, keyword: str, value: Any, place: str) -> list[tuple[str, object]]:
        """The schemas inside a keyword's value, each with the rest of its place. Raises Refused."""
        if keyword in NAMED_PARTS and isinstance(value, dict):
            return [("/" + name.replace("~", "~0").replace("/", "~1"), part) for name, part in value.items()]
        if keyword in LISTED_PARTS and isinstance(value, list) and value:
            return [(f"/{number}", part) for number, part in enumerate(value)]
        if keyword in SINGLE_PARTS:
            return [("", value)]
        if keyword == "$ref" and isinstance(value, str) and "%" not in value:
            self._references.append(value)
            self._same_value.setdefault(place, []).append(value)
            return []
        if keyword == "$schema" and place == "#" and isinstance(value, str) and value.rstrip("#") in DIALECTS:
            return []
        if keyword in PLAIN and PLAIN[keyword](value):
            self._unique_items = self._unique_items or keyword == "uniqueItems"
            return []
        raise Refused("unsupported_schema", "a keyword, or its value, is outside the supported subset")

    def _follow(self, place: str, before: frozenset[str], sizes: dict[str, int]) -> int:
        """How many schemas judge one value here. One that leads back to itself without going down into the value would
        never come to an end; references to references may double with each step."""
        if place in before:
            raise Refused("unsupported_schema", "a reference leads back to itself")
        if place not in sizes:
            others = self._same_value.get(place, ())
            sizes[place] = 1 + sum(self._follow(other, before | {place}, sizes) for other in others)
            if self._references and sizes[place] > max(UNFOLDED_MAX, len(self._parts)):
                raise Refused("unsupported_schema", "references lead to too many schemas for one value")
        return sizes[place]

    def _grow(self, place: str, inside: set[str], grown: dict[str, Grown]) -> Grown:
        """What is held against a value at a place, and below it by key. What is entered again from inside itself counts
        once: what it said of a value need not be asked twice. `inside`: the places that are being entered."""
        if place in inside:
            return 1, {}
        if place not in grown:
            inside.add(place)
            here, below = 1, dict[str, int]()
            for other in self._same_value.get(place, ()):
                more, deeper = self._grow(other, inside, grown)
                here += more
                for key, count in deeper.items():
                    below[key] = below.get(key, 0) + count
            for key, other in self._below.get(place, ()):
                below[key] = below.get(key, 0) + on_one_path(self._grow(other, inside, grown))
            inside.remove(place)
            grown[place] = here, below
        return grown[place]

    # -- judging ------------------------------------------------------------------------------------------------------

    def accepts(self, value: object) -> bool:
        """Whether the value keeps the schema. Raises Refused (`too_large`) where that takes too much to tell."""
        if self._unique_items and long_integers(value) > LONG_INTEGERS_MAX:
            raise Refused("too_large", f"more than {LONG_INTEGERS_MAX} long integers beside uniqueItems")
        self._steps = 0
        self._said = {}
        try:
            return self._valid(self._parts["#"], value)
        except RecursionError:
            raise Refused("too_large", "schema and arguments together are nested too deeply") from None

    def _valid(self, schema: Any, value: Any) -> bool:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise Refused("too_large", "holding the arguments against the schema takes too many steps")
        if isinstance(schema, bool):
            return schema
        return (
            self._valid_itself(schema, value)
            and self._valid_together(schema, value)
            and self._valid_below(schema, value)
        )

    def _valid_itself(self, schema: dict[str, Any], value: Any) -> bool:
        if "type" in schema and not any(TYPES[name](value) for name in type_names(schema["type"]) or ()):
            return False
        if "enum" in schema and comparable(value) not in map(comparable, schema["enum"]):
            return False
        if "const" in schema and comparable(value) != comparable(schema["const"]):
            return False
        if is_number(value):
            return (
                schema.get("minimum", value) <= value <= schema.get("maximum", value)
                and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
                and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
            )
        for kind, unit in ((str, "Length"), (list, "Items"), (dict, "Properties")):
            if isinstance(value, kind):
                return schema.get(f"min{unit}", 0) <= len(value) <= schema.get(f"max{unit}", len(value))
        return True

    def _valid_together(self, schema: dict[str, Any], value: Any) -> bool:
        """The schemas that judge the same value."""
        return (
            ("$ref" not in schema or self._valid_there(schema["$ref"], value))
            and all(self._valid(part, value) for part in schema.get("allOf", ()))
            and ("anyOf" not in schema or any(self._valid(part, value) for part in schema["anyOf"]))
            and ("oneOf" not in schema or sum(self._valid(part, value) for part in schema["oneOf"]) == 1)
            and ("not" not in schema or not self._valid(schema["not"], value))
        )

    def _valid_there(self, place: str, value: Any) -> bool:
        """What a reference leads to. Of a list or an object it is remembered: many ways may lead there."""
        if not isinstance(value, list | dict):
            return self._valid(self._parts[place], value)
        key = (place, id(value))
        if key not in self._said:
            self._said[key] = self._valid(self._parts[place], value)
        return self._said[key]

    def _valid_below(self, schema: dict[str, Any], value: Any) -> bool:
        """The items of a list, the members of an object."""
        if isinstance(value, list):
            first = schema.get("prefixItems", [])
            parts = [*first, *[schema.get("items", True)] * (len(value) - len(first))]
            if schema.get("uniqueItems") and len(set(map(comparable, value))) < len(value):
                return False
            return all(self._valid(part, item) for part, item in zip(parts, value, strict=False))
        if isinstance(value, dict):
            known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
            return all(name in value for name in schema.get("required", ())) and all(
                self._valid(known.get(name, others), item) for name, item in value.items()
            )
        return True


def comparable(value: Any) -> Hashable:
    """Equal for equal JSON values and for no others: 1 is 1.0, and neither is true."""
    if isinstance(value, list):
        return ("list", *map(comparable, value))
    if isinstance(value, dict):
        return frozenset((name, comparable(item)) for name, item in value.items())
    return (isinstance(value, bool), value)


def on_one_path(grown: Grown) -> int:
    """How many schemas one path into a value can be held against: a member or an item, whichever meets the most."""
    here, below = grown
    return here + max(
        below.get(kind, 0) + max((count for key, count in below.items() if key.startswith(kind + "/")), default=0)
        for kind in ("item", "member")
    )


def long_integers(value: object) -> int:
    """How many integers of more than 64 bits a value holds."""
    found, todo = 0, [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict | list):
            todo += node.values() if isinstance(node, dict) else node
        elif isinstance(node, int) and not -(2**63) <= node < 2**63:
            found += 1
    return found
