"""One namespace over three folders, typed leaves, and nothing in the tree that nobody expects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Tree

PORTIONS = ("services", "schemas", "topology")
BLOB_BYTES_MAX = 200_000
SUFFIXES = {
    ".body", ".css", ".html", ".js", ".json", ".jsonl", ".lock", ".lua", ".md", ".mmd", ".py", ".sse", ".svg", ".toml",
    ".tpl", ".txt", ".typed", ".yaml", ".yml",
}  # fmt: skip
NAMES = {
    ".dockerignore", ".gitignore", ".hadolint.yaml", ".helmignore", ".yamllint", "Dockerfile", "LICENSE",
    "Makefile", "py.typed",
}  # fmt: skip
SCRIPTS = {Path(".ci/run")}


def test_namespace_folders_have_no_init(tree: Tree) -> None:
    """An `__init__.py` in any `turngate/` would hide the other two portions."""
    assert [path for path in tree.files if path.parent.name == "turngate" and path.name == "__init__.py"] == []


def test_every_package_is_typed(tree: Tree) -> None:
    packages = {path.parent for path in tree.shipped}
    files = set(tree.files)
    assert sorted(str(package) for package in packages if package / "__init__.py" not in files) == []
    roots = {Path(*package.parts[:3]) for package in packages}
    assert sorted(str(package) for package in roots if package / "py.typed" not in files) == []


def test_shipped_code_lives_in_the_namespace(tree: Tree) -> None:
    assert [path for path in tree.shipped if path.parts[1] != "turngate"] == []


def test_tests_have_unique_names_and_no_init(tree: Tree) -> None:
    names = [path.name for path in tree.under("tests", suffix=".py") if path.name.startswith("test_")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert [path for path in tree.under("tests", suffix=".py") if path.name == "__init__.py"] == []


def test_no_unexpected_file_types(tree: Tree) -> None:
    def expected(path: Path) -> bool:
        return path.suffix in SUFFIXES or path.name in NAMES or path in SCRIPTS

    assert [str(path) for path in tree.files if not expected(path)] == []


def test_no_large_blobs(tree: Tree) -> None:
    sizes = {str(path): (tree.root / path).stat().st_size for path in tree.files}
    assert {name: size for name, size in sizes.items() if size > BLOB_BYTES_MAX} == {}


def test_each_page_has_one_title(tree: Tree) -> None:
    wrong = {}
    for path in tree.files:
        if path.suffix == ".md":
            text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", tree.text(path))
            titles = re.findall(r"(?m)^# .+", text)
            if len(titles) != 1 or not text.lstrip().startswith("# "):
                wrong[str(path)] = titles
    assert wrong == {}


def test_links_between_pages_lead_somewhere(tree: Tree) -> None:
    dead = []
    for path in tree.files:
        if path.suffix != ".md":
            continue
        text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", tree.text(path))
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (tree.root / path.parent / target).exists():
                dead.append(f"{path}: {target}")
    assert dead == []
