"""The Dockerfile, and the wheel that goes into it: complete, and not more than the namespace."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORTIONS = ("services", "schemas", "topology")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=100,
    )
    return zipfile.Path(next(target.glob("*.whl")))


def names(wheel: zipfile.Path) -> set[str]:
    return {name for name in wheel.root.namelist() if not name.startswith("turngate-")}


def test_dockerfile_lints(tools: ModuleType) -> None:
    done = tools.lint_dockerfile()
    assert done.returncode == 0, done.stdout


def test_image_runs_as_nobody_in_particular() -> None:
    final = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    user = re.search(r"(?m)^USER (\d+):(\d+)$", final)
    assert user is not None
    assert int(user[1]) > 0
    assert 'ENTRYPOINT ["turngate"]' in final
    assert re.search(r"(?m)^RUN ", final) is None


def test_copied_files_are_let_through() -> None:
    allowed = set(re.findall(r"(?m)^!(\S+)$", (ROOT / ".dockerignore").read_text()))
    copied: set[str] = set()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text()):
        copied |= set(line.split()[:-1])
    assert copied == allowed


def test_wheel_holds_the_namespace_and_nothing_else(wheel: zipfile.Path) -> None:
    assert {name.split("/")[0] for name in names(wheel)} == {"turngate"}
    assert "turngate/__init__.py" not in names(wheel)


def test_wheel_holds_every_file_of_the_packages(wheel: zipfile.Path) -> None:
    wanted = {
        path.relative_to(ROOT / portion).as_posix()
        for portion in PORTIONS
        for path in (ROOT / portion).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names(wheel) == set()
    assert any(name.endswith(".lua") for name in names(wheel))


def test_wheel_declares_its_command_and_python(wheel: zipfile.Path) -> None:
    folder = next(entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info"))
    assert "turngate = turngate.cli.main:main" in (folder / "entry_points.txt").read_text()
    assert "Requires-Python: >=3.11" in (folder / "METADATA").read_text()
