"""Arguments that Vertex streams as values at JSON paths (`partialArgs`), put together as one JSON text.

A path is RFC 9535's singular query: member names and list places from `$`. Numbers keep their exact text. A value is
given once; a string may come in pieces while its piece says `willContinue`. A list grows at its end only.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TypeAlias

from turngate.domain.stream.findings import GateCode

CHARACTERS_MAX = 512_000
DEPTH_MAX = 64

_STEP = re.compile(
    r"""\.([^\s.\[\]'"*?$@(),:]+)|\[(0|[1-9][0-9]{0,8})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPE = re.compile(r"""\\.|\"""")
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})
_VALUES = frozenset({"stringValue", "numberValue", "boolValue", "nullValue"})
_KEYS = _VALUES | {"jsonPath", "willContinue"}


class _Leaf:
    __slots__ = ("is_open", "is_string", "pieces")

    def __init__(self, text: str, *, is_string: bool, is_open: bool) -> None:
        self.pieces = [text]
        self.is_string = is_string
        self.is_open = is_open


_Node: TypeAlias = "dict[str, _Node] | list[_Node] | _Leaf"


class PartialArguments:
    """The arguments of one call. `fault`: the first thing that made them unusable, and why."""

    __slots__ = ("_open", "_root", "_size", "fault")

    def __init__(self) -> None:
        self._root: dict[str, _Node] = {}
        self._open = 0
        self._size = 0
        self.fault: tuple[GateCode, str] | None = None

    def add(self, item: dict[str, object], number: str | None) -> None:
        """One entry of `partialArgs`. number: the exact text of its `numberValue`."""
        if self.fault is not None:
            return
        names = item.keys() & _VALUES
        path = parse_path(item.get("jsonPath"))
        if not item.keys() <= _KEYS or len(names) != 1 or path is None:
            self.fault = ("malformed_json", "a partial argument is not one value at one path")
            return
        (name,) = names
        text = _text(name, item[name], number)
        if text is None:
            self.fault = ("malformed_json", "a partial argument holds a value of another type than it says")
        elif len(path) > DEPTH_MAX:
            self.fault = ("too_large", f"arguments are nested deeper than {DEPTH_MAX} levels")
        else:
            self._put(path, text, is_string=name == "stringValue", more=item.get("willContinue") is True)
            if self._size > CHARACTERS_MAX:
                self.fault = ("too_large", f"partial arguments exceed {CHARACTERS_MAX} characters")

    def text(self) -> str | None:
        """The whole JSON text, or None where it is not whole; `fault` then says why."""
        if self.fault is None and self._open:
            self.fault = ("malformed_json", "a partial string was never ended")
        return None if self.fault is not None else _write(self._root)

    def _put(self, path: list[str | int], text: str, *, is_string: bool, more: bool) -> None:
        node: _Node = self._root
        for step, following in pairwise(path):
            found = self._find(node, step)
            if self.fault is not None:
                return
            if found is None:
                found = [] if isinstance(following, int) else {}
                self._place(node, step, found)
            node = found
        self._size += len(text)
        old = self._find(node, path[-1])
        if self.fault is not None:
            return
        if old is None:
            self._place(node, path[-1], _Leaf(text, is_string=is_string, is_open=more))
            self._open += more
        elif isinstance(old, _Leaf) and old.is_open and old.is_string and is_string:
            if text:
                old.pieces.append(text)
            self._open -= not more
            old.is_open = more
        else:
            self.fault = ("duplicate_key", "a partial argument comes again")

    def _find(self, node: _Node, step: str | int) -> _Node | None:
        """What is at `step`; a fault where the path contradicts the ones before it, or leaves out a place."""
        if isinstance(node, dict) and isinstance(step, str):
            return node.get(step)
        if isinstance(node, list) and isinstance(step, int) and step <= len(node):
            return node[step] if step < len(node) else None
        self.fault = ("malformed_json", "a path that does not fit the arguments so far")
        return None

    def _place(self, node: _Node, step: str | int, new: _Node) -> None:
        self._size += len(str(step)) + 1
        if isinstance(node, dict) and isinstance(step, str):
            node[step] = new
        elif isinstance(node, list):
            node.append(new)


def parse_path(path: object) -> list[str | int] | None:
    """Names and places of a path from `$`, or None where it is none, or the root itself."""
    if not isinstance(path, str) or not path.startswith("$"):
        return None
    out: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, place, single, double = found.groups()
        quoted = single if double is None else double
        if place is not None:
            out.append(int(place))
        elif name is not None:
            out.append(name)
        else:
            step = _unquoted(quoted, double is None)
            if step is None:
                return None
            out.append(step)
        at = found.end()
    return out or None


def _unquoted(text: str, is_single: bool) -> str | None:
    if is_single:
        text = _ESCAPE.sub(lambda m: {"\\'": "'", '"': '\\"'}.get(m.group(), m.group()), text)
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return None


def _text(name: str, value: object, number: str | None) -> str | None:
    if name == "stringValue":
        return value if isinstance(value, str) else None
    if name == "boolValue":
        return ("true" if value else "false") if isinstance(value, bool) else None
    if name == "nullValue":
        return "null"
    if isinstance(value, str):
        return value if value in _WORDS else None  # how this wire writes them; the gate names the finding
    return number if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _write(node: _Node) -> str:
    if isinstance(node, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_write(v)}" for k, v in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(_write(item) for item in node) + "]"
    text = "".join(node.pieces)
    return json.dumps(text, ensure_ascii=False) if node.is_string else text
