"""The import contracts hold on a copy of the tree, and break when a forbidden import is planted in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORTIONS = ("services", "schemas", "topology")
# Where, what, and the contract it must break.
PLANTS = (
    ("services/turngate/domain", "import asyncio", "domain thinks and touches nothing"),
    ("services/turngate/domain", "import turngate.runtime", "domain thinks and touches nothing"),
    ("services/turngate/domain", "from redis import Redis", "domain thinks and touches nothing"),
    ("schemas/turngate/schemas", "import turngate.topology", "schemas import nothing else"),
    ("topology/turngate/topology", "import turngate.validator", "topology imports schemas and no service"),
    ("services/turngate/ledger", "import turngate.dispatcher", "roles meet on topics"),
    ("services/turngate/runtime", "import turngate.ledger", "the runtime serves roles"),
    ("services/turngate/executor", "import turngate.ledger", "the runtime serves roles"),
    ("services/turngate/edge", "import turngate.devstack", "what runs in production never imports"),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("tree")
    for portion in PORTIONS:
        shutil.copytree(ROOT / portion, target / portion, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    # The copy's portions come before those of the checkout, so its packages are the ones that are read.
    path = os.pathsep.join(str(tree / portion) for portion in PORTIONS)
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("package", "line", "contract"), PLANTS)
def test_planted_import_breaks_its_contract(copy: Path, package: str, line: str, contract: str) -> None:
    planted = copy / package / "planted.py"
    planted.write_text(f"{line}\n")
    try:
        done = lint(copy)
    finally:
        planted.unlink()
    assert done.returncode == 1
    broken = [row for row in done.stdout.splitlines() if row.rstrip().endswith("BROKEN")]
    assert any(row.startswith(contract) for row in broken), done.stdout
    assert "planted" in done.stdout
