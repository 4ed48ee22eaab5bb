"""The allow-list of JSON Schema 2020-12: what is not named here fails closed, with its path.

A validator ignores keywords it does not know, which would loosen a tool's contract without a word. So the
whole schema is walked first; every `$ref` must be local and point at a schema this walk has seen, and no
reference may loop without going down into the instance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

from turngate.domain.stream.toolschema_growth import EVERY_ITEM, EVERY_KEY, Below, growth

DEPTH_MAX = 64
NODES_MAX = 10_000
SIZE_MAX_BYTES = 262_144
UNFOLDED_MAX = 1_024
"""How many subschemas one place of the instance may be held against through references, beyond as many as are written
out. References to references double with each step: validation would take time without end."""

GROWTH_MAX = 10_000
"""How many subschemas one path into the arguments may be held against, however deep it goes."""

PLAIN = frozenset(
    {
        *("type", "enum", "const", "required", "dependentRequired", "format", "pattern"),
        *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains"),
        *("maxProperties", "minProperties", "contentEncoding", "contentMediaType"),
        *("title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "$comment"),
    }
)
"""Keywords whose value holds no schema. `format` is an annotation in 2020-12 and is not asserted."""

ONE_SCHEMA_HERE = frozenset({"not", "if", "then", "else"})
"""One subschema, applied to the same instance."""

ONE_SCHEMA_BELOW = frozenset(
    {
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    }
)
EVERY = {
    **dict.fromkeys(("items", "contains", "unevaluatedItems"), EVERY_ITEM),
    **dict.fromkeys(("additionalProperties", "propertyNames", "unevaluatedProperties"), EVERY_KEY),
}
LIST_HERE = frozenset({"allOf", "anyOf", "oneOf"})
LIST_BELOW = frozenset({"prefixItems"})
MAP_HERE = frozenset({"dependentSchemas"})
MAP_BELOW = frozenset({"properties", "patternProperties", "$defs", "definitions"})

DIALECTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
    }
)
"""Accepted at the root as a label only: whatever reads otherwise in 2020-12 is not on the list and fails
closed."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Why a schema is refused, and where (JSON pointer from its root)."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A schema that may be compiled: the same one, without its dialect label and the ignorable
    annotations. refers: it holds a reference. unique_items: it holds that keyword."""

    schema: dict[str, object] | bool
    refers: bool
    unique_items: bool


class _Refused(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.found = Unsupported(path, reason)


def check_schema(schema: object, size_bytes: int, ignorable: frozenset[str]) -> Checked | Unsupported:
    """Walk the whole schema. Never raises; the first unsupported thing found is returned."""
    if size_bytes > SIZE_MAX_BYTES:
        return Unsupported("", f"larger than {SIZE_MAX_BYTES} bytes")
    walk = _Walk(ignorable)
    try:
        clean = walk.schema(schema, "", 0)
        walk.check_references()
    except _Refused as refused:
        return refused.found
    return Checked(clean, walk.refers, walk.unique_items)


class _Walk:
    def __init__(self, ignorable: frozenset[str]) -> None:
        self._ignorable = ignorable
        self._seen: set[str] = set()
        self._refs: list[tuple[str, str]] = []
        self._same_instance: dict[str, list[str]] = {}
        self._below: dict[str, list[Below]] = {}
        self.unique_items = False

    @property
    def refers(self) -> bool:
        return bool(self._refs)

    def schema(self, node: object, path: str, depth: int) -> dict[str, object] | bool:
        """One (sub)schema, cleaned."""
        if depth > DEPTH_MAX:
            raise _Refused(path, f"nested deeper than {DEPTH_MAX} levels")
        self._seen.add(path)
        if len(self._seen) > NODES_MAX:
            raise _Refused(path, f"more than {NODES_MAX} subschemas")
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise _Refused(path, "a schema must be an object or a boolean")
        clean: dict[str, object] = {}
        for key, value in cast("dict[str, object]", node).items():
            if key in self._ignorable or (key == "$schema" and self._is_label(value, path)):
                continue
            clean[key] = self._keyword(key, value, path, depth)
        return clean

    @staticmethod
    def _is_label(value: object, path: str) -> bool:
        if path == "" and isinstance(value, str) and value.rstrip("#") in DIALECTS:
            return True
        raise _Refused(f"{path}/$schema", "unsupported dialect")

    def _keyword(self, key: str, value: object, path: str, depth: int) -> object:
        at = f"{path}/{_escape(key)}"
        if key in PLAIN:
            self.unique_items = self.unique_items or key == "uniqueItems"
            return value
        if key == "$ref":
            self._reference(value, path, at)
            return value
        if key in ONE_SCHEMA_HERE or key in ONE_SCHEMA_BELOW:
            if key in ONE_SCHEMA_HERE:
                self._applies(path, at)
            elif key in EVERY:
                self._below.setdefault(path, []).append((None, EVERY[key], at))
            return self.schema(value, at, depth + 1)
        if key in LIST_HERE or key in LIST_BELOW:
            return self._list(value, path, at, depth, here=key in LIST_HERE)
        if key in MAP_HERE or key in MAP_BELOW:
            return self._map(value, path, at, depth, key)
        raise _Refused(at, "unsupported keyword")

    def _list(self, value: object, path: str, at: str, depth: int, *, here: bool) -> list[object]:
        if not isinstance(value, list):
            raise _Refused(at, "must be a list of schemas")
        out: list[object] = []
        for place, node in enumerate(cast("list[object]", value)):
            if here:
                self._applies(path, f"{at}/{place}")
            else:
                self._below.setdefault(path, []).append((place, EVERY_ITEM, f"{at}/{place}"))
            out.append(self.schema(node, f"{at}/{place}", depth + 1))
        return out

    def _map(self, value: object, path: str, at: str, depth: int, key: str) -> dict[str, object]:
        if not isinstance(value, dict):
            raise _Refused(at, "must be an object of schemas")
        out: dict[str, object] = {}
        for name, node in cast("dict[str, object]", value).items():
            place = f"{at}/{_escape(name)}"
            if key in MAP_HERE:
                self._applies(path, place)
            elif key in ("properties", "patternProperties"):
                self._below.setdefault(path, []).append((name if key == "properties" else None, EVERY_KEY, place))
            out[name] = self.schema(node, place, depth + 1)
        return out

    def _applies(self, path: str, other: str) -> None:
        self._same_instance.setdefault(path, []).append(other)

    def _reference(self, value: object, path: str, at: str) -> None:
        if not isinstance(value, str):
            raise _Refused(at, "must be text")
        if value != "#" and not value.startswith("#/"):
            raise _Refused(at, "only local references (#, #/...) are supported")
        target = unquote(value[1:])
        self._refs.append((at, target))
        self._applies(path, target)

    def check_references(self) -> None:
        """Every target was walked as a schema, and following references alone never comes back."""
        for at, target in self._refs:
            if target not in self._seen:
                raise _Refused(at, "the reference points at no schema of this document")
        done: dict[str, None] = {}  # in the order in which they were left: children first
        for at, _ in self._refs:
            self._no_loop(at.rpartition("/")[0], at, done)
        if self._refs:
            for node in self._same_instance:
                self._no_loop(node, node, done)
        self._check_unfolding(done)
        if self._refs and growth(self._same_instance, self._below) > GROWTH_MAX:
            raise _Refused("", f"references lead to more than {GROWTH_MAX} subschemas on one path into the arguments")

    def _check_unfolding(self, nodes: Iterable[str]) -> None:
        """`nodes`: each after all that it applies to the same instance."""
        sizes: dict[str, int] = {}
        for node in nodes:
            sizes[node] = 1 + sum(sizes[other] for other in self._same_instance.get(node, ()))
            if sizes[node] > max(UNFOLDED_MAX, len(self._seen)):
                raise _Refused(node, f"references unfold to more than {UNFOLDED_MAX} subschemas for one value")

    def _no_loop(self, start: str, at: str, done: dict[str, None]) -> None:
        active: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        on_path: set[str] = set()
        while stack:
            node, leaving = stack.pop()
            if leaving:
                on_path.discard(active.pop())
                done[node] = None
            elif node in on_path:
                raise _Refused(at, "the reference leads back to itself")
            elif node not in done:
                active.append(node)
                on_path.add(node)
                stack.append((node, True))
                stack.extend((following, False) for following in self._same_instance.get(node, ()))


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
