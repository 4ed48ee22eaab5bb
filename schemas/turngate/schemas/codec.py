"""The only place that serialises: our records to canonical bytes (RFC 8785) and back.

Our own records hold no floats, no integers beyond 2^53-1 and only ASCII keys, so orjson with sorted keys
*is* the canonical form of RFC 8785. Foreign content travels inside strings and is never re-serialised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeVar, cast

import orjson
from pydantic import ValidationError

from turngate.schemas.base import Model, Record
from turngate.schemas.errors import InvalidRecord, UnknownSchema

R = TypeVar("R", bound=Record)

FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
M = TypeVar("M", bound=Model)


def canonical_bytes(value: object) -> bytes:
    """Canonical JSON (RFC 8785 for our value range) of plain data.

    Raises InvalidRecord where the value holds what our records may not: a float, an integer beyond 2^53-1, a
    key that is not ASCII text, a lone surrogate, or anything JSON cannot say.
    """
    _check_range(value)
    return _dump(value)


def flat_bytes(value: Mapping[str, str | int] | Sequence[str | int]) -> bytes:
    """Canonical JSON of texts and integers under ASCII names, or in a row, with nothing nested.

    For the hot path: nothing in it needs the look that `canonical_bytes` takes. Raises InvalidRecord for an integer
    beyond 2^53-1 or a lone surrogate.
    """
    return _dump(value)


def encode(record: Record) -> bytes:
    """The bytes of a record as they go on the wire; the same record always gives the same bytes."""
    return _dump(record.model_dump(mode="python", by_alias=True, exclude_none=True))


def decode(kind: type[R], data: bytes | None) -> R:
    """One record of the given kind, by its wire names alone.

    Raises InvalidRecord (not JSON, wrong shape; `path` names the field) or UnknownSchema (another schema or
    version, or none).
    """
    if data is None:
        raise InvalidRecord("record has no value", code="null_value")
    try:
        record = kind.model_validate_json(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise _typed(kind, error) from None
    if "schema_" not in record.model_fields_set:
        raise UnknownSchema("record names no schema")
    return record


def decode_strict(kind: type[R], data: bytes | None) -> R:
    """`decode` for what others wrote. A key that comes twice has no one meaning, and JSON knows no NaN.

    Raises InvalidRecord, UnknownSchema.
    """
    record = decode(kind, data)
    check_strict(data or b"")
    return record


def check_strict(data: bytes) -> None:
    """Raises InvalidRecord (duplicate_key, malformed_json) where a JSON text has two readings or is none."""
    try:
        json.loads(data, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidRecord("record is not JSON", code="malformed_json") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise InvalidRecord("an object of the record names a key twice", code="duplicate_key")
    return unique


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


def encode_model(model: Model) -> bytes:
    """A part of a record on its own, in canonical bytes (kept in Redis, never a topic's value)."""
    return _dump(model.model_dump(mode="python", by_alias=True, exclude_none=True))


def decode_model(kind: type[M], data: bytes) -> M:
    """What `encode_model` wrote. Raises InvalidRecord."""
    try:
        return kind.model_validate_json(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidRecord(f"{kind.__name__} cannot be read ({error.error_count()} errors)") from None


def _dump(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except (TypeError, orjson.JSONEncodeError) as error:
        code = "invalid_unicode" if "surrogates" in str(error) else None
        raise InvalidRecord("value cannot be written as canonical JSON", code=code) from None


def _check_range(value: object) -> None:
    """orjson writes floats and sorts keys by code point; neither is canonical, so neither may come in."""
    if isinstance(value, float):
        raise InvalidRecord("a float cannot be written as canonical JSON")
    if isinstance(value, dict):
        for key, item in cast(dict[object, object], value).items():
            if not isinstance(key, str) or not key.isascii():
                raise InvalidRecord("a key that is not ASCII text cannot be written as canonical JSON")
            _check_range(item)
    elif isinstance(value, list | tuple):
        for item in cast(tuple[object, ...], value):
            _check_range(item)


def _typed(kind: type[Record], error: ValidationError) -> InvalidRecord | UnknownSchema:
    """Our error for pydantic's complaints, without the input they quote. Another schema explains them all."""
    complaints = error.errors(include_input=False, include_url=False, include_context=False)
    first = complaints[0]
    if first["type"] == "json_invalid":
        return InvalidRecord("record is not JSON", code="malformed_json")
    if first["type"] == "model_type" and not first["loc"]:
        return InvalidRecord("record is not a JSON object", code="malformed_json")
    if any(complaint["loc"] == ("schema",) for complaint in complaints):
        return UnknownSchema(f"expected schema {kind.SCHEMA}.v1")
    path = ".".join(_safe(part) for part in first["loc"])
    return InvalidRecord(f"{kind.SCHEMA}: field {path or '(root)'} is invalid ({first['type']})", path=path)


def _safe(part: int | str) -> str:
    """A step of a path. An unknown field's name is a sender's text: only what looks like a name is shown."""
    return str(part) if isinstance(part, int) or FIELD_NAME.fullmatch(part) else "(unknown)"


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
