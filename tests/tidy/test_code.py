"""House rules of the code that no linter here has: sizes, time, randomness, what the core may import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Tree

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

DOMAIN_PACKAGES = {"jsonschema_rs", "orjson", "turngate"}
DOMAIN_NAMESPACE = ("turngate.domain", "turngate.schemas")
# Standard library that touches the world, the clock or chance.
WORLD = {
    "asyncio", "concurrent", "ctypes", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing",
    "os", "pathlib", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
PRINTING_ROOM = ("services", "turngate", "cli")


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import, `from a import b` as `a`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def called(node: ast.AST) -> str:
    """`a.b.c` of a call to it, otherwise empty."""
    parts: list[str] = []
    target: ast.AST = node.func if isinstance(node, ast.Call) else node
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    return ".".join([target.id, *reversed(parts)]) if isinstance(target, ast.Name) else ""


def test_modules_are_short(tree: Tree) -> None:
    lengths = {str(path): len(tree.text(path).splitlines()) for path in tree.python}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_are_short(tree: Tree) -> None:
    long = {}
    for path in tree.python:
        for function in functions(tree.syntax(path)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                long[f"{path}:{function.lineno} {function.name}"] = lines
    assert long == {}


def test_no_bare_except(tree: Tree) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.python
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert found == []


def naive(call: ast.Call) -> bool:
    """Whether this call makes a datetime without a time zone."""
    name = called(call).split(".")
    if name[-1] in ("utcnow", "utcfromtimestamp") or name[-2:] == ["datetime", "today"]:
        return True
    zoned = any(keyword.arg in ("tz", "tzinfo", None) for keyword in call.keywords)
    if name[-2:] == ["datetime", "now"]:
        return not call.args and not zoned
    if name[-2:] == ["datetime", "fromtimestamp"]:
        return len(call.args) < 2 and not zoned
    return name[-1] == "datetime" and len(call.args) < 8 and not zoned


def test_no_naive_datetimes(tree: Tree) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.python
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.Call) and naive(node)
    ]
    assert found == []


def test_only_the_command_line_prints(tree: Tree) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.shipped
        if path.parts[:3] != PRINTING_ROOM
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.Call) and called(node) == "print"
    ]
    assert found == []


def forbidden_in_domain(name: str) -> bool:
    top = name.partition(".")[0]
    if name.startswith("."):
        return True  # house rule: absolute imports, so that a reader sees which room a name comes from
    if top == "turngate":
        return not name.startswith(DOMAIN_NAMESPACE)
    if top in DOMAIN_PACKAGES:
        return False
    return top in WORLD or top not in sys.stdlib_module_names


def test_domain_imports_nothing_that_touches_the_world(tree: Tree) -> None:
    found = [
        f"{path}:{line} {name}"
        for path in tree.domain
        for line, name in imported(tree.syntax(path))
        if forbidden_in_domain(name)
    ]
    assert found == []


def test_domain_awaits_nothing(tree: Tree) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in tree.domain
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert found == []


def test_domain_asks_no_clock_and_no_chance(tree: Tree) -> None:
    asked = {
        "now",
        "today",
        "uuid1",
        "uuid4",
        "monotonic",
        "perf_counter",
        "time_ns",
        "urandom",
        "getrandbits",
    }
    found = [
        f"{path}:{node.lineno} {called(node)}"
        for path in tree.domain
        for node in ast.walk(tree.syntax(path))
        if isinstance(node, ast.Call) and "." in called(node) and called(node).rpartition(".")[2] in asked
    ]
    assert found == []


def test_the_checks_find_what_they_look_for() -> None:
    calls = {
        "datetime.utcnow()": True,
        "datetime.datetime.now()": True,
        "datetime.now(tz=UTC)": False,
        "datetime.fromtimestamp(1)": True,
        "datetime(2026, 1, 1)": True,
        "datetime(2026, 1, 1, tzinfo=UTC)": False,
    }
    for source, expected in calls.items():
        call = ast.parse(source, mode="eval").body
        assert isinstance(call, ast.Call)
        assert naive(call) is expected, source
    assert [name for name in ("time", "redis.asyncio", "turngate.runtime.clock", ".rules") if forbidden_in_domain(name)]
    assert not [name for name in ("dataclasses", "turngate.schemas.blocks", "orjson") if forbidden_in_domain(name)]
