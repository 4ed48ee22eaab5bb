"""The locks hold what pyproject.toml asks for, agree with each other and pin every file by hash."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
BASE = PROJECT["project"]["dependencies"]
ASKED = {
    "requirements.lock": [*BASE, *EXTRAS["fleet"], *EXTRAS["devstack"]],
    "requirements-fleet.lock": [*BASE, *EXTRAS["fleet"]],
    "requirements-dev.lock": [*BASE, *EXTRAS["fleet"], *EXTRAS["devstack"], *GROUPS["dev"]],
    "requirements-bootstrap.lock": GROUPS["bootstrap"],
    "requirements-fuzz.lock": GROUPS["fuzz"],
    "requirements-deploy.lock": GROUPS["deploy"],
}
LAB = Path("benchmarks") / "lab"
LOCKS_OF_THE_LAB = [str(LAB / f"requirements-{name}.lock") for name in ("lab", "litellm")]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: Iterable[str]) -> set[str]:
    found = {normal(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]) for requirement in requirements}
    return found - {"turngate"}


def pins(lock: str) -> dict[str, str]:
    """Package -> version with its marker, as the lock writes it."""
    lines = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(.+?) \\$", (ROOT / lock).read_text())
    return {normal(name): version for name, version in lines}


@pytest.mark.parametrize("lock", sorted(ASKED))
def test_lock_holds_what_is_asked_for(lock: str) -> None:
    assert names(ASKED[lock]) - set(pins(lock)) == set()


@pytest.mark.parametrize("lock", [*sorted(ASKED), *LOCKS_OF_THE_LAB])
def test_each_pin_has_hashes_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text()
    stanzas = re.split(r"(?m)^(?=\S)", text)[1:]
    assert stanzas
    assert [stanza for stanza in stanzas if "--hash=sha256:" not in stanza] == []
    assert re.search(r"://|--(?:extra-)?index-url|--find-links|@ ", text) is None


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-fleet.lock"])
def test_locks_agree(lock: str) -> None:
    dev = {name: version.partition(" ")[0] for name, version in pins("requirements-dev.lock").items()}
    other = {name: version.partition(" ")[0] for name, version in pins(lock).items()}
    assert {name: version for name, version in other.items() if dev.get(name) != version} == {}


@pytest.mark.parametrize("lock", LOCKS_OF_THE_LAB)
def test_the_lab_locks_what_it_asks_for(lock: str) -> None:
    asked = (ROOT / lock).with_suffix(".txt").read_text()
    wanted = names(line for line in asked.splitlines() if line and not line.startswith("#"))
    assert wanted
    assert wanted - set(pins(lock)) == set()


def test_the_lab_locks_its_npm_packages_by_hash_and_names_no_index() -> None:
    text = (ROOT / LAB / "node" / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    asked = json.loads((ROOT / LAB / "node" / "package.json").read_text())["dependencies"]
    assert packages.pop("")["dependencies"] == asked
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert '"resolved"' not in text


def test_image_carries_no_development_stack() -> None:
    below_faust = {"aiohttp"}
    assert names(EXTRAS["devstack"]) & set(pins("requirements-fleet.lock")) == below_faust
