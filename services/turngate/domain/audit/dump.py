"""The text form of a log: JSON lines, one record each, and the receive log's lines."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime

import orjson

from turngate.domain.audit.log import Entry, ReceiveLine, entry_of
from turngate.schemas.errors import InvalidRecord

UNCOMMITTED = ".uncommitted"
"""`session-events.uncommitted.jsonl` holds what a read_uncommitted consumer saw."""


def print_entry(entry: Entry) -> bytes:
    """One line without its newline; values that are not UTF-8 are written as base64."""
    line: dict[str, object] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timeMs": entry.time_ms,
        "key": entry.key,
    }
    if entry.value is not None:
        try:
            line["value"] = entry.value.decode("utf-8")
        except UnicodeDecodeError:
            line["base64"] = base64.b64encode(entry.value).decode("ascii")
    return orjson.dumps(line)


def parse_entry(line: bytes) -> Entry:
    """The entry of a line. Raises InvalidRecord where the line is not one."""
    plain = _object(line)
    value: bytes | None = None
    if plain.get("value") is not None:
        value = _text(plain, "value").encode()
    elif plain.get("base64") is not None:
        try:
            value = base64.b64decode(_text(plain, "base64"), validate=True)
        except binascii.Error:
            raise InvalidRecord("dump line: base64 is invalid", path="base64") from None
    key = plain.get("key")
    return entry_of(
        _text(plain, "topic"),
        _number(plain, "partition"),
        _number(plain, "offset"),
        _number(plain, "timeMs"),
        key if isinstance(key, str) else None,
        value,
    )


def parse_receive_line(line: bytes, number: int) -> ReceiveLine:
    """A line of the provider side's log; `time` is ISO 8601, or epoch seconds or milliseconds.

    Raises InvalidRecord where the line is not one.
    """
    plain = _object(line)
    generation = plain.get("attemptGeneration")
    return ReceiveLine(
        number=number,
        time_ms=_time_ms(plain.get("time")),
        endpoint=_text(plain, "endpoint"),
        method=_text(plain, "method").upper(),
        path=_text(plain, "path"),
        body_sha256=_text(plain, "bodySha256"),
        request_digest=_text(plain, "requestDigest"),
        idempotency_key=_optional(plain, "idempotencyKey"),
        operation=_optional(plain, "operation"),
        generation=int(generation) if isinstance(generation, int | str) and str(generation).isdigit() else None,
        length=_number(plain, "length"),
    )


def _object(line: bytes) -> dict[str, object]:
    try:
        plain: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise InvalidRecord("line is not JSON", code="malformed_json") from None
    if not isinstance(plain, dict):
        raise InvalidRecord("line is not a JSON object", code="malformed_json")
    return {str(name): value for name, value in plain.items()}


def _text(plain: dict[str, object], name: str) -> str:
    value = plain.get(name)
    if not isinstance(value, str):
        raise InvalidRecord(f"field {name} must be text", path=name)
    return value


def _optional(plain: dict[str, object], name: str) -> str | None:
    value = plain.get(name)
    return value if isinstance(value, str) and value else None


def _number(plain: dict[str, object], name: str) -> int:
    value = plain.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRecord(f"field {name} must be a whole number", path=name)
    return value


def _time_ms(value: object) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(value * 1000) if value < 1e11 else round(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidRecord("field time is no ISO 8601 time", path="time") from None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    raise InvalidRecord("field time is missing", path="time")
