"""Reading a bare provider history: plain JSON in, neutral nodes out; nothing is mended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, cast

from turngate.domain.sequence.graph import Node, Nodes
from turngate.schemas.errors import InvalidRecord
from turngate.schemas.findings import Finding, HistoryCode

JsonObject = dict[str, object]

_ARGUMENTS = frozenset({"input", "args", "arguments"})
"""Where the six APIs keep the arguments of a call, as an object."""


class DoubledKeys(dict[str, object]):
    """A JSON object that named a key twice; which of the values was meant nobody can say."""


@dataclass(frozen=True, slots=True)
class Imported:
    """nodes: the history. findings: what only the provider's own form could show."""

    nodes: Nodes
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class NodeWriter:
    """Collects nodes; the turn number grows whenever the message or the speaker changes."""

    nodes: list[Node] = field(default_factory=list[Node])
    findings: list[Finding] = field(default_factory=list[Finding])
    _turn: int = 0
    _key: tuple[int, str] = (-1, "")

    def add(self, message: int, role: str, kind: str, path: str, **fields: str | bool | None) -> Node:
        key = (message, "tool" if kind == "tool_result" else role)
        if key != self._key:
            self._turn += 1
            self._key = key
        node = Node(
            turn=self._turn,
            message=message,
            role=role,
            kind=kind,
            path=path,
            text=_text(fields.get("text")),
            call_id=_text(fields.get("call_id")),
            tool=_text(fields.get("tool")),
            arguments=_text(fields.get("arguments")),
            signature=_text(fields.get("signature")),
            status=_text(fields.get("status")),
            opaque=bool(fields.get("opaque")),
        )
        self.nodes.append(node)
        return node

    def finding(self, code: HistoryCode, message: str, path: str) -> None:
        self.findings.append(Finding(code=code, message=message, path=path))

    def done(self) -> Imported:
        return Imported(tuple(self.nodes), tuple(self.findings))


def load_json(data: bytes) -> object:
    """Any JSON value; escapes of half surrogates stay in the text, doubled keys are marked.

    Raises InvalidRecord where the bytes are not JSON in UTF-8; NaN and Infinity are not.
    """
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_pairs, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidRecord("the file is not JSON", code="unreadable") from None


def refuse_doubled_keys(value: object, *, in_arguments: bool) -> None:
    """Raises InvalidRecord (unreadable) where an object names a key twice: it has no one meaning.

    in_arguments: also where the object is a call's arguments, which have a finding of their own in a provider's form.
    """
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, DoubledKeys):
            raise InvalidRecord("an object of the file names a key twice", code="unreadable")
        if isinstance(node, dict):
            for name, part in cast(JsonObject, node).items():
                if in_arguments or name not in _ARGUMENTS or not isinstance(part, dict):
                    todo.append(part)
        elif isinstance(node, list):
            todo.extend(cast(list[object], node))


def as_object(value: object) -> JsonObject:
    """The object, empty where the value is none."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def items(value: object) -> Sequence[object]:
    return cast(Sequence[object], value) if isinstance(value, list) else ()


def message_list(history: JsonObject, *names: str) -> Sequence[JsonObject]:
    """The list of objects under the first of these names that has one. Raises InvalidRecord."""
    for name in names:
        found = history.get(name)
        if isinstance(found, list) and all(isinstance(one, dict) for one in cast(list[object], found)):
            return cast(Sequence[JsonObject], found)
    raise InvalidRecord(f"the history has no list of {names[0]}", path=names[0], code="unreadable")


def object_text(value: object) -> str | None:
    """JSON text of an arguments value, None where it is absent or names a key twice."""
    if value is None or any(isinstance(part, DoubledKeys) for part in _walk(value)):
        return None
    return json.dumps(value, ensure_ascii=True)


def all_text(value: object) -> str:
    """Every string inside a value, for checks that only ask what characters there are."""
    return "".join(part for part in _walk(value) if isinstance(part, str))


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, object]]) -> JsonObject:
    out = dict(pairs)
    return out if len(out) == len(pairs) else DoubledKeys(out)


def _walk(value: object) -> Iterator[object]:
    todo = [value]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, dict):
            plain = cast(JsonObject, node)
            todo.extend(plain)
            todo.extend(plain.values())
        elif isinstance(node, list):
            todo.extend(cast(list[object], node))
