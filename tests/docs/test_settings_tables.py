"""The tables of settings say what the code does: every variable, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from turngate.runtime.endpoints import Endpoint
from turngate.runtime.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"(?m)^\| `TURNGATE_(?P<name>[A-Z_]+)` \| (?P<default>[^|]+) \|")
SAID_OTHERWISE = {"instance_id": "host name", "http_host": "by environment"}


def table(page: str) -> dict[str, str]:
    """Field name -> the default a page gives it."""
    rows = ROW.findall((ROOT / page).read_text(encoding="utf-8"))
    found = {name.lower(): default.strip() for name, default in rows}
    assert len(found) == len(rows), f"{page} names a variable twice"
    return found


def default_of(name: str, field: FieldInfo) -> str:
    if name in SAID_OTHERWISE:
        return SAID_OTHERWISE[name]
    if field.is_required():
        return "required"
    if field.default in (None, ()):
        return "none"
    value = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    return f"`{value}`"


def test_the_settings_page_has_every_variable() -> None:
    assert set(table("docs/settings.md")) == set(Settings.model_fields)


@pytest.mark.parametrize("page", ["README.md", "docs/settings.md"])
def test_defaults_are_the_codes(page: str) -> None:
    said = table(page)
    assert said
    assert said == {name: default_of(name, Settings.model_fields[name]) for name in said}


def test_the_settings_page_has_every_field_of_an_endpoint() -> None:
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    section = text.partition("## Endpoints")[2].partition("```")[0]
    rows = "\n".join(row.split("|")[1] for row in section.splitlines() if row.startswith("| `"))
    said = set(re.findall(r"`(\w+)`", rows))
    assert said == {field.alias for field in Endpoint.model_fields.values()}


def test_variables_named_anywhere_exist(prose: dict[str, str]) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | {
        "TURNGATE_BOOTSTRAP",
        "TURNGATE_EXECUTOR_INSTANCE_ID",
    }
    named = {(page, name) for page, text in prose.items() for name in re.findall(r"TURNGATE_[A-Z_]*[A-Z]", text)}
    assert sorted((page, name) for page, name in named if name not in known) == []
