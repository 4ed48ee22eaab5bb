"""The tree as the tidy tests see it: every file that is or would be committed."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Tree:
    """Paths are relative to `root` and name regular files only."""

    root: Path
    files: tuple[Path, ...]

    def under(self, *folders: str, suffix: str) -> list[Path]:
        """Files with this suffix below any of these top folders."""
        return [path for path in self.files if path.parts[0] in folders and path.suffix == suffix]

    def text(self, path: Path) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def syntax(self, path: Path) -> ast.Module:
        return ast.parse(self.text(path), filename=str(path))

    @property
    def shipped(self) -> list[Path]:
        """Python files that go into the wheel."""
        return self.under("services", "schemas", "topology", suffix=".py")

    @property
    def domain(self) -> list[Path]:
        return [path for path in self.shipped if path.parts[:3] == ("services", "turngate", "domain")]

    @property
    def python(self) -> list[Path]:
        return [path for path in self.files if path.suffix == ".py"]


@pytest.fixture(scope="session")
def tree() -> Tree:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = sorted({name for name in listed.split("\0") if name})
    return Tree(ROOT, tuple(Path(name) for name in names if (ROOT / name).is_file()))
