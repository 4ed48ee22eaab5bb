"""Nothing in the tree depends on one machine: no registry hosts, no paths, no secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Tree

# Written in pieces, so that this page is clean too.
REGISTRIES = (
    "pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.(?:org|com)", "crates" + r"\.io",
    "proxy" + r"\.golang\.org", "repo1?" + r"\.maven\.(?:apache\.)?org", "deb" + r"\.debian\.org",
)  # fmt: skip
PATHS = (
    r"(?<![\w.\-])/" + r"work/\w",
    r"(?<![\w.\-])/" + r"root/\w",
    r"(?<![\w.\-])/home/\w+/",
    r"/Users/\w+/",
)
SECRETS = (
    r"sk-(?:ant-|proj-)?[A-Za-z0-9]{24,}",
    r"AKIA[0-9A-Z]{16}",
    r"-----BEGIN [A-Z ]*PRIVATE" + " KEY-----",
)


def hits(tree: Tree, patterns: tuple[str, ...]) -> list[str]:
    pattern = re.compile("|".join(patterns))
    found = []
    for path in tree.files:
        text = (tree.root / path).read_bytes().decode("utf-8", "replace")
        found += [
            f"{path}:{number}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line) is not None
        ]
    return found


def test_no_registry_hosts(tree: Tree) -> None:
    assert hits(tree, REGISTRIES) == []


def test_no_paths_of_one_machine(tree: Tree) -> None:
    assert hits(tree, PATHS) == []


def test_nothing_that_looks_like_a_secret(tree: Tree) -> None:
    assert hits(tree, SECRETS) == []


def test_no_open_ends(tree: Tree) -> None:
    words = tuple(rf"\b{word}\b" for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX"))
    assert hits(tree, words) == []
