"""The records as JSON Schema 2020-12 documents, for clients in other languages.

The checked-in copies lie in `jsonschema/` beside this module; a test compares them with the export.
"""

from __future__ import annotations

from pathlib import Path

import orjson
from pydantic.json_schema import GenerateJsonSchema

from turngate.schemas.base import Record
from turngate.schemas.registry import RECORDS
from turngate.schemas.session import EVENT_FIELDS, SessionEvent

DIALECT = "https://json-schema.org/draft/2020-12/schema"
INDEX = "index.json"
CHECKED_IN = Path(__file__).parent / "jsonschema"


class _Untitled(GenerateJsonSchema):
    """Without a title per field: it would only repeat the field's name."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def schema_files() -> dict[str, bytes]:
    """File name to content: `<Schema>.v1.json` for every record, and the index of them all."""
    files = {f"{name}.json": _text(_document(name, kind)) for name, kind in sorted(RECORDS.items())}
    index = {name: {"file": f"{name}.json", "title": _title(kind)} for name, kind in sorted(RECORDS.items())}
    return files | {INDEX: _text({"schemas": index})}


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write all files, creating the directory; removes nothing. Returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, content in schema_files().items():
        path = directory / name
        path.write_bytes(content)
        written.append(path)
    return tuple(written)


def stale_schemas(directory: Path) -> tuple[str, ...]:
    """Names of files that are missing, differ from the export, or belong to no record any more."""
    wanted = schema_files()
    present = {path.name: path.read_bytes() for path in directory.glob("*.json")}
    return tuple(name for name in sorted({*wanted, *present}) if wanted.get(name) != present.get(name))


def _document(name: str, kind: type[Record]) -> dict[str, object]:
    document: dict[str, object] = kind.model_json_schema(by_alias=True, mode="validation", schema_generator=_Untitled)
    required = document.get("required", [])
    assert isinstance(required, list)
    document["required"] = ["schema", *required]
    if kind is SessionEvent:
        document["allOf"] = _event_conditions()
    return {"$schema": DIALECT, "$id": f"urn:turngate:schema:{name}", **document}


def _event_conditions() -> list[dict[str, object]]:
    """Which fields an event of a type must carry, the rule the model checks at construction."""
    aliases = {name: field.alias or name for name, field in SessionEvent.model_fields.items()}
    return [
        {
            "if": {"properties": {"type": {"const": type_}}, "required": ["type"]},
            "then": {"required": [aliases[name] for name in names]},
        }
        for type_, names in EVENT_FIELDS.items()
        if names
    ]


def _title(kind: type[Record]) -> str:
    return (kind.__doc__ or kind.SCHEMA).strip().splitlines()[0]


def _text(document: object) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
