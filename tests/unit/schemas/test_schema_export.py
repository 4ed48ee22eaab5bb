"""The exported JSON Schemas: checked in, complete, and without numbers that JSON readers disagree about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import jsonschema_rs
import orjson
import pytest
import typer
from typer.testing import CliRunner

from turngate.cli.schemas import register
from turngate.schemas.base import MAX_SAFE_INTEGER
from turngate.schemas.export import CHECKED_IN, INDEX, export_schemas, schema_files, stale_schemas
from turngate.schemas.registry import RECORDS


def test_the_checked_in_files_are_up_to_date() -> None:
    assert stale_schemas(CHECKED_IN) == (), "run: turngate schemas export schemas/turngate/schemas/jsonschema"


def test_one_file_per_record_and_an_index_of_them() -> None:
    files = schema_files()
    assert set(files) == {f"{name}.json" for name in RECORDS} | {INDEX}
    index = cast(dict[str, dict[str, dict[str, str]]], orjson.loads(files[INDEX]))["schemas"]
    assert {name: entry["file"] for name, entry in index.items()} == {name: f"{name}.json" for name in RECORDS}


@pytest.mark.parametrize("name", list(RECORDS))
def test_exports_are_valid_2020_12_and_closed(name: str) -> None:
    document = cast(dict[str, object], orjson.loads(schema_files()[f"{name}.json"]))
    jsonschema_rs.meta.validate(document)
    assert document["additionalProperties"] is False
    assert "schema" in cast(list[str], document["required"])


@pytest.mark.parametrize("name", list(RECORDS))
def test_no_float_and_no_unsafe_integer_can_enter(name: str) -> None:
    for part in parts(orjson.loads(schema_files()[f"{name}.json"])):
        assert part.get("type") != "number"
        if part.get("type") == "integer":
            assert cast(int, part["maximum"]) <= MAX_SAFE_INTEGER
            assert cast(int, part.get("minimum", part.get("exclusiveMinimum"))) >= 0
        if part.get("type") == "object":
            assert part["additionalProperties"] is False, "every object is closed"


def test_event_conditions_are_part_of_the_export() -> None:
    validator = jsonschema_rs.validator_for(orjson.loads(schema_files()["SessionEvent.v1.json"]))
    event = {"schema": "SessionEvent.v1", "tenant": "t", "conversation": "c", "eventId": "e", "type": "abort"}
    assert not validator.is_valid(event)
    assert validator.is_valid(event | {"controlId": "x"})


def parts(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        yield cast(dict[str, object], value)
        for part in value.values():
            yield from parts(part)
    elif isinstance(value, list):
        for part in value:
            yield from parts(part)


def test_command_line_exports_and_checks(tmp_path: Path) -> None:
    app = typer.Typer()
    register(app)
    target = tmp_path / "out"
    run = CliRunner().invoke
    assert run(app, ["schemas", "export", str(target)]).exit_code == 0
    assert {path.name for path in target.iterdir()} == set(schema_files())
    assert run(app, ["schemas", "export", str(target), "--check"]).exit_code == 0
    (target / "Turn.v1.json").write_bytes(b"{}")
    (target / "Gone.v1.json").write_bytes(b"{}")
    checked = run(app, ["schemas", "export", str(target), "--check"])
    assert checked.exit_code == 1
    assert checked.stdout == "stale Gone.v1.json\nstale Turn.v1.json\n"
    assert len(export_schemas(target)) == len(RECORDS) + 1
