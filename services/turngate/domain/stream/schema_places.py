"""What a tool schema says about one place of the arguments: whether a value there may be exchanged for another of
the same type and length, and which keys it names. Reads any JSON, also schemas that the gate refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote

from turngate.domain.stream.jsonscan import Path
from turngate.domain.stream.toolschema import LIST_HERE, MAP_HERE, ONE_SCHEMA_HERE

CONSTRAINING = frozenset(
    {
        *("enum", "const", "pattern", "format", "multipleOf", "uniqueItems"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    }
)
"""Keywords under which a value, with all it holds, is kept. Type and lengths hold for a placeholder too."""

_OPEN_KEYS = frozenset({"patternProperties", "propertyNames"})
_BELOW_OBJECT = ("additionalProperties", "unevaluatedProperties")
_BELOW_LIST = ("items", "contains", "unevaluatedItems")
_NODES_MAX = 4096

Node = Mapping[str, object]


class SchemaPlaces:
    """Answers for one schema; remembers what it was asked."""

    def __init__(self, schema: object) -> None:
        self._root = schema
        self._nodes: dict[Path, tuple[Node, ...]] = {}
        self._kept: dict[Path, bool] = {}

    def keeps(self, path: Path) -> bool:
        """Whether the value at this place is to be left as it is."""
        found = self._kept.get(path)
        if found is None:
            above = bool(path) and self.keeps(path[:-1])
            found = above or any(not CONSTRAINING.isdisjoint(node) for node in self._at(path))
            self._kept[path] = found
        return found

    def keeps_key(self, path: Path, key: str) -> bool:
        """Whether a key of the object at this place is to be left as it is: it is named, or names are constrained."""
        if self.keeps(path):
            return True
        return any(not _OPEN_KEYS.isdisjoint(node) or key in _names(node) for node in self._at(path))

    def _at(self, path: Path) -> tuple[Node, ...]:
        found = self._nodes.get(path)
        if found is None:
            start = self._below(path) if path else [self._root]
            found = self._nodes[path] = tuple(self._spread(start))
        return found

    def _below(self, path: Path) -> list[object]:
        out: list[object] = []
        step = path[-1]
        for node in self._at(path[:-1]):
            if isinstance(step, str):
                out += [_map(node.get("properties")).get(step), *_map(node.get("patternProperties")).values()]
                out += [node.get(name) for name in _BELOW_OBJECT]
            else:
                prefix = node.get("prefixItems")
                listed = cast("list[object]", prefix) if isinstance(prefix, list) else []
                out += [*listed[step : step + 1], *(node.get(name) for name in _BELOW_LIST)]
        return out

    def _spread(self, start: list[object]) -> Iterator[Node]:
        """These schemas and all that apply to the same value."""
        todo, seen = list(start), set[int]()
        while todo and len(seen) < _NODES_MAX:
            plain = todo.pop()
            if not isinstance(plain, dict) or id(cast("Node", plain)) in seen:
                continue
            node = cast("Node", plain)
            seen.add(id(node))
            yield node
            todo += [node.get(name) for name in ONE_SCHEMA_HERE]
            for name in LIST_HERE:
                listed = node.get(name)
                todo += cast("list[object]", listed) if isinstance(listed, list) else []
            for name in MAP_HERE:
                todo += _map(node.get(name)).values()
            if "$ref" in node:
                todo.append(self._target(node["$ref"]))

    def _target(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        node = self._root
        for part in unquote(reference[1:]).split("/")[1:]:
            step = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("Node", node).get(step)
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(cast("list[object]", node)):
                node = cast("list[object]", node)[int(step)]
            else:
                return None
        return node


def named_keys(schema: object) -> Iterator[str]:
    """Every property name anywhere in a schema."""
    todo, left = [schema], _NODES_MAX
    while todo and left:
        left -= 1
        node = todo.pop()
        if isinstance(node, dict):
            yield from _names(cast("Node", node))
            todo += cast("Node", node).values()
        elif isinstance(node, list):
            todo += cast("list[object]", node)


def _names(node: Node) -> set[str]:
    found = {*_map(node.get("properties")), *_map(node.get("dependentRequired")), *_map(node.get("dependentSchemas"))}
    for listed in (node.get("required"), *_map(node.get("dependentRequired")).values()):
        if isinstance(listed, list):
            found |= {name for name in cast("list[object]", listed) if isinstance(name, str)}
    return found


def _map(value: object) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}
