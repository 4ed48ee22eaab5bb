"""The deploy tools, and what they make of our files. Run by `make deploy-check`, which installs them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "turngate"
CASES = sorted((CHART / "ci").glob("*-values.yaml"))

Document = Mapping[str, object]


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    spec = importlib.util.spec_from_file_location("deploy_check", ROOT / "scripts" / "deploy_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", params=CASES, ids=lambda case: case.stem.removesuffix("-values"))
def case(request: pytest.FixtureRequest) -> Path:
    return cast(Path, request.param)


@pytest.fixture(scope="session")
def manifests(tools: ModuleType, case: Path) -> list[Document]:
    """Every object that the chart renders for this case."""
    done = tools.render_chart("-f", case)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]
