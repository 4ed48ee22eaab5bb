"""The fenced blocks of the project's pages.

The word behind the language says what a block is: a file name (`python ask.py`, `json endpoints.json`) where it is a
file that other blocks or tests use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(?ms)^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```\s*$")


@dataclass(frozen=True, slots=True)
class Fence:
    """One block. page: relative to the root. line: of its first line of text, from 1."""

    page: str
    line: int
    language: str
    name: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """The pages a reader follows, relative to the root."""
    top = [Path(name) for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
    return top + sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))


def fences_of(page: Path) -> list[Fence]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        language, _, name = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(Fence(str(page), line, language, name.strip(), match["text"]))
    return found


@pytest.fixture(scope="session")
def fences() -> list[Fence]:
    return [fence for page in pages() for fence in fences_of(page)]


@pytest.fixture(scope="session")
def prose() -> dict[str, str]:
    """Page -> its text without blocks, line breaks as spaces."""
    texts = {str(page): FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")) for page in pages()}
    return {page: re.sub(r"\s*\n\s*", " ", text) for page, text in texts.items()}
