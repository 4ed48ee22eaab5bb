"""Pages name only what is there, and decisions have one form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Tree

PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
TOP = (".ci", "benchmarks", "docs", "helm", "schemas", "scripts", "services", "tests", "topology")
FILE = re.compile(r"(?!__)[\w.*-]+\.(?:py|lua|toml|yaml|json|md|lock)")
DECISIONS = Path("docs/decisions")
PARTS = ["Context", "Decision", "Consequences"]
DECISION_LINES_MAX = 45


def pages(tree: Tree) -> list[Path]:
    return [path for path in tree.files if str(path) in PAGES or (path.parts[0] == "docs" and path.suffix == ".md")]


def named_paths(text: str) -> list[str]:
    """Inline code that names a path of this tree, or a file of any folder; `<name>` stands for any name."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    found = []
    for code in re.findall(r"`([^`\s]+)`", text):
        name = re.sub(r"<[^>]*>", "*", code)
        if "/" in name and name.split("/")[0] in TOP:
            found.append(name.rstrip("/"))
        elif FILE.fullmatch(name):
            found.append(name)
    return found


def there(root: Path, name: str) -> bool:
    return any(root.glob(name))


def missing(tree: Tree, page: Path) -> list[str]:
    return [f"{page}: {name}" for name in named_paths(tree.text(page)) if not there(tree.root, name)]


def test_paths_on_pages_exist(tree: Tree) -> None:
    assert [gap for page in pages(tree) for gap in missing(tree, page)] == []


def test_the_architecture_names_every_room(tree: Tree) -> None:
    rooms = {path.parts[2] for path in tree.shipped if path.parts[0] == "services"}
    named = set(re.findall(r"`services/turngate/(\w+)", tree.text(Path("ARCHITECTURE.md"))))
    assert rooms - named == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see `services/turngate/nobody.py`", ["services/turngate/nobody.py"]),
        ("see `service.py` and `a/b`", ["service.py"]),
        ("`services/turngate/<role>/lua/<verb>_v<N>.lua`", ["services/turngate/*/lua/*_v*.lua"]),
        ("```\n`tests/none.py`\n```\n`docs/`", ["docs"]),
    ],
)
def test_paths_are_found_in_text(text: str, names: list[str]) -> None:
    assert named_paths(text) == names


def test_decisions_have_one_form(tree: Tree) -> None:
    wrong = {}
    numbers: list[str] = []
    for path in (path for path in tree.files if path.parent == DECISIONS):
        text = tree.text(path)
        parts = re.findall(r"(?m)^## (.+)$", text)
        numbers.append(path.name[:4])
        named = re.fullmatch(r"\d{4}-[a-z0-9]+(?:-[a-z0-9]+)*\.md", path.name)
        if named is None or parts != PARTS or len(text.splitlines()) > DECISION_LINES_MAX:
            wrong[str(path)] = parts
    assert wrong == {}
    assert sorted(numbers) == [f"{number:04}" for number in range(1, len(numbers) + 1)]
