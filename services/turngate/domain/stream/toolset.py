"""Compiled tool schemas: the allow-list walk, then jsonschema-rs, kept by digest in a bounded cache."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import jsonschema_rs

from turngate.domain.stream.findings import Finding
from turngate.domain.stream.toolschema import Unsupported, check_schema

_CACHE_SIZE_MAX = 1024
_CACHE: OrderedDict[str, ToolSchema] = OrderedDict()
_PATTERNS = jsonschema_rs.RegexOptions()
LONG_INTEGERS_MAX = 500
"""In the arguments of a tool whose schema says `uniqueItems`."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool's schema: usable, or refused with the place and the reason.

    digest: sha256 over the schema with sorted keys. tells_where: it holds no reference, through which there may be
    more places than can be told. unique_items: it holds that keyword.
    """

    digest: str
    unsupported: Unsupported | None
    validator: jsonschema_rs.Draft202012Validator | None
    tells_where: bool = True
    unique_items: bool = False

    def compares_too_much(self, arguments: Mapping[str, object]) -> bool:
        """Whether `uniqueItems` would take too long: integers of more than 64 bits are compared each with each."""
        return self.unique_items and sum(_long_integers(arguments)) > LONG_INTEGERS_MAX

    def first_error(self, arguments: Mapping[str, object]) -> str | None:
        """Where the arguments first break the schema, as a JSON pointer to the broken keyword; None if they
        keep it."""
        if self.validator is None:
            return ""
        if self.validator.is_valid(arguments):
            return None
        if not self.tells_where:
            return ""
        error = next(iter(self.validator.iter_errors(arguments)), None)
        return "" if error is None else _pointer(error.schema_path)


@dataclass(frozen=True, slots=True)
class CompiledToolset:
    """Tool name -> compiled schema. `findings` holds an `unsupported_schema` per refused tool."""

    tools: Mapping[str, ToolSchema]
    findings: tuple[Finding, ...]

    @property
    def supported(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class ToolsetRefusal:
    """Why a toolset is not registered. path: JSON pointer that begins with the tool's name."""

    code: str
    message: str
    path: str


def refusal_of(tools: Iterable[tuple[str, str]]) -> ToolsetRefusal | None:
    """The first thing a gate could not work with in (tool name, JSON text of its schema); None: register it."""
    schemas: dict[str, object] = {}
    for name, text in tools:
        if name in schemas:
            return ToolsetRefusal("duplicate_tool", "two tools have one name", _place(name, ""))
        try:
            schemas[name] = json.loads(text)
        except (ValueError, RecursionError):
            return ToolsetRefusal("malformed_json", "inputSchema is not JSON", _place(name, ""))
    for finding in compile_toolset(schemas).findings:
        return ToolsetRefusal(finding.code, finding.message, finding.path or "")
    return None


def compile_toolset(schemas: Mapping[str, object], *, ignorable: frozenset[str] = frozenset()) -> CompiledToolset:
    """Compile every schema of a toolset.

    Never raises for a bad schema: it is collected as a finding with its path, and a call of that tool is
    blocked.
    ignorable: annotation keywords that a tenant names as harmless (e.g. `strict`).
    """
    tools = {name: compile_schema(schema, ignorable) for name, schema in schemas.items()}
    findings = tuple(
        Finding(
            "unsupported_schema",
            f"tool schema: {tool.unsupported.reason}",
            path=_place(name, tool.unsupported.path),
        )
        for name, tool in tools.items()
        if tool.unsupported is not None
    )
    return CompiledToolset(tools, findings)


def compile_schema(schema: object, ignorable: frozenset[str] = frozenset()) -> ToolSchema:
    """One schema, from the cache where its digest is known."""
    try:
        text = json.dumps([schema, sorted(ignorable)], sort_keys=True, allow_nan=False)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return ToolSchema("", Unsupported("", "the schema is not plain JSON"), None)
    found = _CACHE.get(digest)
    if found is None:
        found = _compile(schema, digest, len(text), ignorable)
        _CACHE[digest] = found
        if len(_CACHE) > _CACHE_SIZE_MAX:
            _CACHE.popitem(last=False)
    else:
        _CACHE.move_to_end(digest)
    return found


def _compile(schema: object, digest: str, size: int, ignorable: frozenset[str]) -> ToolSchema:
    checked = check_schema(schema, size, ignorable)
    if isinstance(checked, Unsupported):
        return ToolSchema(digest, checked, None)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            checked.schema, validate_formats=False, pattern_options=_PATTERNS, offline=True
        )
    except jsonschema_rs.ValidationError as error:
        return ToolSchema(digest, Unsupported(_pointer(error.instance_path), "not a valid 2020-12 schema"), None)
    except (ValueError, jsonschema_rs.ReferencingError):
        return ToolSchema(digest, Unsupported("", "the schema cannot be compiled"), None)
    return ToolSchema(digest, None, validator, not checked.refers, checked.unique_items)


def _place(name: str, path: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1") + path


def _pointer(path: list[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _long_integers(value: object) -> Iterator[int]:
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            todo += cast("dict[str, object]", node).values()
        elif isinstance(node, list):
            todo += cast("list[object]", node)
        elif isinstance(node, int) and not -(2**63) <= node < 2**63:
            yield 1
