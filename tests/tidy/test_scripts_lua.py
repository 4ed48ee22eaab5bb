"""Every Lua script says what it is for and keeps to the keys it is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turngate.runtime.redis.scripts import load_sources

if TYPE_CHECKING:
    from conftest import Tree

SHARED = Path("services/turngate/runtime/redis/lua")
HEADER = ("Purpose:", "ARGV:", "Returns:")


def header(text: str) -> str:
    """The comment lines before the first line of code."""
    match = re.match(r"(?:--.*\n)*", text.removeprefix("#!lua\n"))
    return match[0] if match else ""


def scripts(tree: Tree) -> dict[str, str]:
    return {str(path): tree.text(path) for path in tree.under("services", suffix=".lua")}


def code(text: str) -> str:
    return re.sub(r"--.*", "", text)


def test_each_script_opens_with_its_contract(tree: Tree) -> None:
    lacking = {name: [word for word in HEADER if word not in header(text)] for name, text in scripts(tree).items()}
    assert {name: words for name, words in lacking.items() if words} == {}
    assert [name for name, text in scripts(tree).items() if not text.startswith("-- Purpose:")] == []


def test_script_names_carry_a_version(tree: Tree) -> None:
    own = [Path(name) for name in scripts(tree) if Path(name).parent != SHARED]
    assert [str(path) for path in own if re.fullmatch(r"[a-z_]+_v\d+", path.stem) is None] == []
    loaded = {f"services/turngate/{name.replace('/', '/lua/')}.lua" for name in load_sources()}
    assert loaded == {str(path) for path in own}


def test_loaded_scripts_start_with_the_engine_line() -> None:
    assert all(text.startswith("#!lua\n") for text in load_sources().values())
    assert all(text.count("#!lua") == 1 for text in load_sources().values())


@pytest.mark.parametrize("banned", ["cjson", "cmsgpack", "os.time", "math.random", "redis.pcall", "loadstring"])
def test_scripts_neither_encode_records_nor_ask_another_clock(tree: Tree, banned: str) -> None:
    assert [name for name, text in scripts(tree).items() if banned in code(text)] == []


def test_scripts_build_no_key_names(tree: Tree) -> None:
    """The first argument of every call on data is a key as it was passed: one of the bucket's, by name."""
    commands = r"redis\.call\(\s*'(?:[HXZ][A-Z]+|P?EXPIRE|DEL|EXISTS|GET|SET)'\s*,\s*([^,)\s]+)"
    bucket = {"META", "HEADS", "TURNS", "OPS", "REQS", "CALLS", "LEASES", "TIMERS", "PROJECTION", "REPLAY"}
    foreign = {name: set(re.findall(commands, code(text))) - bucket for name, text in scripts(tree).items()}
    assert {name: sorted(found) for name, found in foreign.items() if found} == {}
