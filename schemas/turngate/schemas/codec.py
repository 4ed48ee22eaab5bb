"""The only place that serialises: our records to canonical bytes (RFC 8785) and back.

Our own records hold no floats, no integers beyond 2^53-1 and only ASCII keys, so orjson with sorted keys
*is* the canonical form of RFC 8785. Foreign content travels inside strings and is never re-serialised.
"""

from __future__ import annotations

from typing import TypeVar

import orjson
from pydantic import ValidationError

from turngate.schemas.base import Model, Record
from turngate.schemas.errors import InvalidRecord, UnknownSchema

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=Model)


def canonical_bytes(value: object) -> bytes:
    """Canonical JSON (RFC 8785 for our value range) of plain data or of a record.

    Raises InvalidRecord where the value holds something JSON cannot (a lone surrogate, an object of unknown
    type).
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise InvalidRecord("value cannot be written as canonical JSON", code="invalid_unicode") from error


def encode(record: Record) -> bytes:
    """The bytes of a record as they go on the wire; the same record always gives the same bytes."""
    return canonical_bytes(record.model_dump(mode="python", by_alias=True, exclude_none=True))


def encode_model(model: Model) -> bytes:
    """A part of a record on its own, in canonical bytes (kept in Redis, never a topic's value)."""
    return canonical_bytes(model.model_dump(mode="python", by_alias=True, exclude_none=True))


def decode_model(kind: type[M], data: bytes) -> M:
    """What `encode_model` wrote. Raises InvalidRecord."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise InvalidRecord(f"{kind.__name__} cannot be read ({error.error_count()} errors)") from None


def decode(kind: type[R], data: bytes | None) -> R:
    """One record of the given kind.

    Raises InvalidRecord (not JSON, wrong shape; `path` names the field) or UnknownSchema (another schema or
    version).
    """
    if data is None:
        raise InvalidRecord("record has no value", code="null_value")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise _typed(kind, error) from None


def _typed(kind: type[Record], error: ValidationError) -> InvalidRecord | UnknownSchema:
    """Our error for pydantic's first complaint, without the input it quotes."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return InvalidRecord("record is not JSON", code="malformed_json")
    path = ".".join(str(part) for part in first["loc"])
    if path == "schema":
        return UnknownSchema(f"expected schema {kind.SCHEMA}.v1")
    return InvalidRecord(f"{kind.SCHEMA}: field {path or '(root)'} is invalid ({first['type']})", path=path)


def schema_name(data: bytes | None) -> str:
    """The `schema` field of a record without validating the rest.

    Raises InvalidRecord where the value is missing, not JSON or not an object, UnknownSchema where it names
    none.
    """
    if data is None:
        raise InvalidRecord("record has no value", code="null_value")
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise InvalidRecord("record is not JSON", code="malformed_json") from None
    if not isinstance(plain, dict):
        raise InvalidRecord("record is not a JSON object", code="malformed_json")
    name = plain.get("schema")
    if not isinstance(name, str):
        raise UnknownSchema("record names no schema")
    return name
