"""Corners of the codec that a random record rarely meets."""

from __future__ import annotations

import pytest

from turngate.schemas.codec import canonical_bytes, decode, decode_strict, encode, schema_name
from turngate.schemas.control import Control
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any, decode_any_strict
from turngate.schemas.requests import TurnRequest

GOOD = '{"schema":"Control.v1","tenant":"t","conversation":"c","controlId":"x","command":"pause"}'


def altered(before: str, after: str) -> bytes:
    assert before in GOOD
    return GOOD.replace(before, after).encode()


def test_wire_names_are_camel_case_and_sorted_and_absent_fields_stay_absent() -> None:
    record = Control(tenant="t", conversation="c", control_id="x", command="pause")
    assert encode(record) == (
        b'{"command":"pause","controlId":"x","conversation":"c","schema":"Control.v1","tenant":"t"}'
    )
    assert decode(Control, GOOD.encode()) == record


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (altered('"controlId"', '"control_id"'), "controlId"),
        (altered('"command":"pause"', '"command":"pause","more":1'), "more"),
        (altered('"command":"pause"', '"command":"pause","say \\"hello\\" to Bob":1'), "(unknown)"),
        (altered('"tenant":"t"', '"tenant":"a/b"'), "tenant"),
        (altered('"tenant":"t"', '"tenant":7'), "tenant"),
        (altered('"tenant":"t"', '"tenant":NaN'), "tenant"),
        (altered('"command":"pause"', '"command":"pause","revision":1.0'), "revision"),
        (altered('"command":"pause"', '"command":"pause","revision":true'), "revision"),
        (altered('"command":"pause"', '"command":"pause","revision":"1"'), "revision"),
        (altered('"command":"pause"', '"command":"pause","revision":-1'), "revision"),
        (altered('"command":"pause"', '"command":"pause","revision":9007199254740992'), "revision"),
        (altered('"command":"pause"', f'"command":"pause","revision":{10**40}'), "revision"),
    ],
)
def test_the_wrong_field_is_named(data: bytes, path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode(Control, data)
    assert caught.value.path == path
    assert caught.value.code == "invalid_record"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, "null_value"),
        (b"", "malformed_json"),
        (b"\xff", "malformed_json"),
        (altered('"t"', '"\\ud800"'), "malformed_json"),
        (GOOD.encode() + b"x", "malformed_json"),
        (b"[" * 100_000, "malformed_json"),
    ],
)
def test_what_is_not_json_is_said_to_be_so(data: bytes | None, code: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode(Control, data)
    assert caught.value.code == code
    with pytest.raises(InvalidRecord):
        decode_any(data, ("Control.v1",))


@pytest.mark.parametrize("schema", ['"Control.v2"', '"Turn.v1"', "7", "null"])
def test_another_schema_is_unknown_whatever_else_is_wrong(schema: str) -> None:
    data = altered('"Control.v1"', schema).replace(b'"t"', b"7")
    with pytest.raises(UnknownSchema):
        decode(Control, data)
    with pytest.raises(UnknownSchema):
        decode_any(data, ("Control.v1",))


def test_a_record_without_schema_is_unknown() -> None:
    with pytest.raises(UnknownSchema):
        decode(Control, altered('"schema":"Control.v1",', ""))


@pytest.mark.parametrize("data", [None, b"", b"[]", b'"x"', b"{"])
def test_schema_name_of_what_is_no_object(data: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        schema_name(data)


def test_a_lone_surrogate_cannot_be_written_or_constructed() -> None:
    with pytest.raises(InvalidRecord) as caught:
        canonical_bytes(["\ud800"])
    assert caught.value.code == "invalid_unicode"


@pytest.mark.parametrize("value", [object(), {1: "a"}, {"ä": 1}, {"a": {1, 2}}, b"bytes"])
def test_what_json_or_our_canonical_form_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(InvalidRecord):
        canonical_bytes(value)


def test_control_characters_are_escaped_as_rfc_8785_says() -> None:
    assert canonical_bytes('\b\t\n\f\r\x00\x1f"\\\x7f€') == b'"\\b\\t\\n\\f\\r\\u0000\\u001f\\"\\\\\x7f\xe2\x82\xac"'


def test_a_key_that_comes_twice_is_refused_where_others_write() -> None:
    twice = altered('"command":"pause"', '"command":"pause","command":"resume"')
    for read in (lambda: decode_strict(Control, twice), lambda: decode_any_strict(twice, ("Control.v1",))):
        with pytest.raises(InvalidRecord) as caught:
            read()
        assert caught.value.code == "duplicate_key"
    assert decode_strict(Control, GOOD.encode()) == decode_any_strict(GOOD.encode(), ("Control.v1",))
    deep = b'{"schema":"TurnRequest.v1","options":{"model":"a","model":"b","endpoint":"e","maxOutputTokens":1},'
    deep += b'"tenant":"t","conversation":"c","requestId":"r"}'
    assert decode(TurnRequest, deep).options.model == "b"
    with pytest.raises(InvalidRecord):
        decode_strict(TurnRequest, deep)
