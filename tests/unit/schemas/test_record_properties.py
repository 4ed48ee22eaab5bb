"""Every record kind, built at random from its exported JSON Schema: codec round trips and refusals."""

from __future__ import annotations

import copy
import functools
import json
import string
from typing import cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.schemas.base import MAX_SAFE_INTEGER, Record
from turngate.schemas.codec import canonical_bytes, decode, encode
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.export import schema_files
from turngate.schemas.registry import RECORDS, decode_any
from turngate.schemas.session import EVENT_FIELDS, SessionEvent

Json = dict[str, "Json"] | list["Json"] | str | int | bool | None
Document = dict[str, Json]

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NAMES = list(RECORDS)
DIGEST = "^[0-9a-f]{64}$"
SENTINEL = "secret-7c1f"

unhurried = settings(deadline=None, max_examples=30)


@functools.cache
def document(name: str) -> Document:
    return cast(Document, orjson.loads(schema_files()[f"{name}.json"]))


def value_of(schema: Document, root: Document) -> st.SearchStrategy[Json]:
    """A strategy for exactly the JSON Schema vocabulary that the exports use; anything else fails."""
    if "$ref" in schema:
        definitions = cast(dict[str, Document], root["$defs"])
        return value_of(definitions[str(schema["$ref"]).removeprefix("#/$defs/")], root)
    if "anyOf" in schema:
        return st.one_of(*(value_of(part, root) for part in cast(list[Document], schema["anyOf"])))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(cast(list[Json], schema["enum"]))
    makers = {
        "string": text_of, "integer": integer_of, "array": array_of, "object": object_of,
        "boolean": lambda *_: st.booleans(), "null": lambda *_: st.none(),
    }  # fmt: skip
    return cast(st.SearchStrategy[Json], makers[str(schema["type"])](schema, root))


def text_of(schema: Document, root: Document) -> st.SearchStrategy[str]:
    if schema.get("pattern") == DIGEST:
        return st.binary(min_size=32, max_size=32).map(bytes.hex)
    if "pattern" in schema:
        alphabet = string.ascii_letters + string.digits + "._~:@+-"
        return st.from_regex(str(schema["pattern"]), fullmatch=True, alphabet=alphabet).filter(
            lambda text: len(text) <= cast(int, schema.get("maxLength", 999))
        )
    low, high = cast(int, schema.get("minLength", 0)), cast(int, schema.get("maxLength", 12))
    return st.text(st.characters(exclude_categories=("Cs",)), min_size=low, max_size=min(high, 12))


def integer_of(schema: Document, root: Document) -> st.SearchStrategy[int]:
    low = cast(int, schema.get("minimum", cast(int, schema.get("exclusiveMinimum", 0)) + 1))
    return st.integers(low, cast(int, schema["maximum"]))


def array_of(schema: Document, root: Document) -> st.SearchStrategy[list[Json]]:
    if "prefixItems" in schema:
        parts = [value_of(part, root) for part in cast(list[Document], schema["prefixItems"])]
        return st.tuples(*parts).map(list)
    return st.lists(value_of(cast(Document, schema["items"]), root), max_size=2)


def object_of(schema: Document, root: Document) -> st.SearchStrategy[Document]:
    properties = cast(dict[str, Document], schema["properties"])
    required = cast(list[str], schema.get("required", []))
    parts = {name: value_of(part, root) for name, part in properties.items()}
    return st.fixed_dictionaries(
        {name: parts[name] for name in required},
        optional={name: part for name, part in parts.items() if name not in required},
    )


def session_events() -> st.SearchStrategy[Document]:
    """Any event type, with the fields that its type must carry."""
    aliases = {name: field.alias or name for name, field in SessionEvent.model_fields.items()}
    root = document("SessionEvent.v1")
    properties = cast(dict[str, Document], root["properties"])

    def of_type(type_: str) -> st.SearchStrategy[Document]:
        schema = copy.deepcopy(root)
        narrowed = cast(dict[str, Document], schema["properties"])
        narrowed["type"] = {"const": type_}
        needed = [aliases[name] for name in EVENT_FIELDS[type_]]
        for name in needed:
            options = cast(list[Document], properties[name].get("anyOf", [properties[name]]))
            narrowed[name] = next(option for option in options if option.get("type") != "null")
        schema["required"] = list({*cast(list[str], root["required"]), *needed})
        return object_of(schema, root)

    return st.sampled_from(sorted(EVENT_FIELDS)).flatmap(of_type)


PLAIN: dict[str, st.SearchStrategy[Document]] = {
    name: session_events() if name == "SessionEvent.v1" else object_of(document(name), document(name)) for name in NAMES
}
any_record = st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), PLAIN[name]))


@pytest.mark.parametrize("name", NAMES)
def test_round_trip_gives_the_same_bytes_and_the_same_record(name: str) -> None:
    @unhurried
    @given(PLAIN[name])
    def check(plain: Document) -> None:
        record = decode(RECORDS[name], orjson.dumps(plain))
        data = encode(record)
        again = decode_any(data, (name,))
        assert again == record
        assert encode(again) == data
        assert len({record, again}) == 1, "records are hashable values"

    check()


@unhurried
@given(any_record)
def test_encoded_records_are_rfc_8785(pair: tuple[str, Document]) -> None:
    """Python's json, told to sort and to stay compact, writes RFC 8785 for floats-free, ASCII-keyed data."""
    name, plain = pair
    data = encode(decode(RECORDS[name], orjson.dumps(plain)))
    parsed = json.loads(data)
    assert data.decode() == json.dumps(parsed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert list(numbers_of(parsed)) == [number for number in numbers_of(parsed) if isinstance(number, int)]


@unhurried
@given(any_record, st.data())
def test_one_broken_field_is_named_and_its_value_never_quoted(pair: tuple[str, Document], data: st.DataObject) -> None:
    name, plain = pair
    field = data.draw(st.sampled_from(sorted(plain)))
    broken = plain | {field: {SENTINEL: [SENTINEL, 1.5]}}
    with pytest.raises((InvalidRecord, UnknownSchema)) as caught:
        decode(RECORDS[name], orjson.dumps(broken))
    assert SENTINEL not in str(caught.value)
    if isinstance(caught.value, InvalidRecord):
        assert caught.value.path.split(".")[0] == field
        assert field in str(caught.value)
    else:
        assert field == "schema"


@unhurried
@given(any_record, st.data())
def test_a_missing_field_is_named(pair: tuple[str, Document], data: st.DataObject) -> None:
    name, plain = pair
    field = data.draw(st.sampled_from(cast(list[str], document(name)["required"])))
    with pytest.raises((InvalidRecord, UnknownSchema)) as caught:
        decode(RECORDS[name], orjson.dumps({key: value for key, value in plain.items() if key != field}))
    if isinstance(caught.value, InvalidRecord):
        assert caught.value.path == field
    else:
        assert field == "schema"


@unhurried
@given(any_record, st.data())
def test_cut_or_damaged_bytes_are_refused_by_our_errors_only(pair: tuple[str, Document], data: st.DataObject) -> None:
    name, plain = pair
    whole = orjson.dumps(plain)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(st.sampled_from([whole[:at], whole[:at] + b"\xff" + whole[at:], whole + whole]))
    with pytest.raises((InvalidRecord, UnknownSchema)):
        decode_any(damaged, (name,))


@unhurried
@given(st.sampled_from(NAMES), st.binary(max_size=200))
def test_random_bytes_are_refused_by_our_errors_only(name: str, data: bytes) -> None:
    with pytest.raises((InvalidRecord, UnknownSchema)):
        decode_any(data, (name,))
    with pytest.raises((InvalidRecord, UnknownSchema)):
        decode(RECORDS[name], data)


@unhurried
@given(st.sampled_from(NAMES), st.recursive(TEXT | st.integers() | st.none(), st.lists, max_leaves=5))
def test_other_json_is_refused_by_our_errors_only(name: str, value: object) -> None:
    with pytest.raises((InvalidRecord, UnknownSchema)):
        decode_any(json.dumps(value).encode(), (name,))


plain_data = st.recursive(
    st.none() | st.booleans() | TEXT | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(string.printable), inner, max_size=3),
    max_leaves=12,
)


@unhurried
@given(plain_data)
def test_canonical_bytes_equal_the_oracle(value: object) -> None:
    oracle = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical_bytes(value) == oracle.encode()


@unhurried
@given(st.floats() | st.integers(min_value=2**53) | st.integers(max_value=-(2**53)))
def test_no_float_and_no_large_integer_can_be_written(number: float | int) -> None:
    for value in (number, [number], {"a": [{"b": number}]}):
        with pytest.raises(InvalidRecord):
            canonical_bytes(value)


def numbers_of(value: object) -> list[object]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers_of(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers_of(part)]
    return [value] if isinstance(value, int | float) else []


def test_every_kind_is_a_record_of_version_one() -> None:
    for name, kind in RECORDS.items():
        assert issubclass(kind, Record)
        assert name == f"{kind.SCHEMA}.v1"
        assert kind.model_fields["schema_"].default == name
