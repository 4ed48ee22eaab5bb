"""What never reaches a step, and which of a topic's readers says so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.runtime.deadletters import DeadRecord, dead_letter
from turngate.runtime.records import InputRecord
from turngate.runtime.triage import EXTRAS_BYTES_MAX, KEY_BYTES_MAX, own_dead, triage
from turngate.schemas.codec import decode, encode, schema_name
from turngate.schemas.control import Control
from turngate.schemas.envelope import MOVED_HEADER
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX, DeadLetter
from turngate.topology.groups import ROLES, answering_role
from turngate.topology.keys import partition_of
from turngate.topology.topics import TOPICS

PARTITIONS = 4
KEY = b"acme/c1"
RIGHT = partition_of(KEY, PARTITIONS)
WRONG = (RIGHT + 1) % PARTITIONS
READ = sorted({topic for role in ROLES.values() for topic in role.inputs})


def record(topic: str = "control", **fields: object) -> InputRecord:
    plain = {"partition": RIGHT, "offset": 7, "timestamp_ms": 1, "key": KEY, "value": b"{}", "headers": ()}
    return InputRecord(topic, **{**plain, **fields})  # type: ignore[arg-type]


UNUSABLE = [
    ({"value": None}, "null_value"),
    ({"key": None}, "null_key"),
    ({"key": b"\xff\xfe/x"}, "undecodable_key"),
    ({"key": b"no-slash"}, "invalid_key"),
    ({"key": b"/c"}, "invalid_key"),
    ({"key": b"acme/"}, "invalid_key"),
    ({"key": b"a/" + b"c" * KEY_BYTES_MAX}, "invalid_key"),
    ({"value": b"x" * (TOPICS["control"].bytes_max + 1)}, "oversized_record"),
    ({"partition": WRONG, "headers": ((MOVED_HEADER, b"1"),)}, "misrouted"),
    ({"partition": WRONG, "headers": (("h", b"x" * EXTRAS_BYTES_MAX),)}, "oversized_record"),
]


@pytest.mark.parametrize(("fields", "reason"), UNUSABLE)
def test_one_reader_writes_the_dead_letter_and_the_others_skip(fields: dict[str, object], reason: str) -> None:
    found = {name: triage([record(**fields)], PARTITIONS, name) for name in ("validator", "ledger", "recovery")}
    assert [item.reason for item in found["validator"].dead] == [reason]
    for name in ("ledger", "recovery"):
        assert (found[name].good, found[name].moved, found[name].dead) == ([], [], [])
        assert [item.reason for item in found[name].skipped] == [reason]


def test_one_reader_moves_what_lies_on_a_wrong_partition() -> None:
    stray = record(partition=WRONG, headers=(("ce_id", b"1"), ("odd", None)))
    found = {name: triage([stray], PARTITIONS, name) for name in ("validator", "ledger", "recovery")}
    (moved,) = found["validator"].moved
    assert (moved.topic, moved.partition, moved.key, moved.value) == ("control", RIGHT, KEY, b"{}")
    assert moved.headers == (*stray.headers, (MOVED_HEADER, b"1"))
    assert [len(found[name].moved) for name in ("ledger", "recovery")] == [0, 0]
    arrived = record(headers=moved.headers)
    assert triage([arrived], PARTITIONS, "ledger").good == [arrived]


def test_a_value_at_the_limit_and_a_key_at_the_limit_are_good() -> None:
    value = b"x" * TOPICS["control"].bytes_max
    key = b"a/" + b"c" * (KEY_BYTES_MAX - 2)
    good = [record(value=value), record(key=key, partition=partition_of(key, PARTITIONS))]
    assert triage(good, PARTITIONS, "validator").good == good


def test_a_topic_of_tenants_has_any_key_and_any_partition() -> None:
    good = record("toolsets", key=b"acme", partition=WRONG)
    assert triage([good], PARTITIONS, "recovery").good == [good]


@pytest.mark.parametrize("topic", READ)
def test_every_topic_that_is_read_has_one_answering_role(topic: str) -> None:
    assert topic in ROLES[answering_role(topic)].inputs


def test_the_answering_roles() -> None:
    """Written down, since operators look for a topic's dead letters under this role."""
    assert {topic: answering_role(topic) for topic in READ} == {
        "control": "validator", "sequences": "dispatcher", "session-events": "recovery",
        "stream-events": "reassembler", "tool-results": "ledger", "toolsets": "recovery", "turn-requests": "validator",
        "turns": "ledger",
    }  # fmt: skip


def test_what_only_one_reader_cannot_read_it_reports_itself() -> None:
    broken, own = DeadRecord(record(), "malformed_json", ""), DeadRecord(record(), "unknown_schema", "")
    assert own_dead([broken, own], "validator") == ([broken, own], [])
    assert own_dead([broken, own], "ledger") == ([own], [broken])


def test_letters_of_several_readers_about_one_record_have_ids_of_their_own() -> None:
    item = DeadRecord(record(), "unknown_schema", "")
    letters = [dead_letter(item, name) for name in ("validator", "ledger", "ledger")]
    ids = [dict(letter.headers)["ce_id"] for letter in letters]
    assert ids[0] != ids[1] == ids[2]
    assert letters[1] == letters[2]
    assert decode(DeadLetter, letters[1].value).role == "ledger"


@given(
    key=st.one_of(st.none(), st.binary(max_size=40), st.just(b"\xff" * 100_000), st.just(b"\x00" * 100_000)),
    value=st.one_of(st.none(), st.binary(max_size=40), st.just(b"\x00" * 300_000), st.just(b"\xff" * 300_000)),
)
def test_a_dead_letter_can_always_be_written(key: bytes | None, value: bytes | None) -> None:
    out = dead_letter(DeadRecord(record(key=key, value=value), "r", "d" * 10_000), "validator")
    whole = len(out.key) + len(out.value) + sum(len(name) + len(text) for name, text in out.headers)
    assert whole < TOPICS["dead-letters"].bytes_max
    letter = decode(DeadLetter, out.value)
    assert letter.payload.length == len(value or b"")
    assert len(letter.payload.value) <= 2 * QUARANTINE_BYTES_MAX
    assert json.loads(out.value)["origin"] == {"topic": "control", "partition": RIGHT, "offset": 7}


@given(at=st.integers(0, 90), put=st.binary(min_size=1, max_size=6))
def test_what_one_reader_takes_as_json_is_json_to_all(at: int, put: bytes) -> None:
    """Readers differ in their parsers; where one says malformed_json, no other may take the record."""
    good = encode(Control(tenant="acme", conversation="c1", control_id="id", command="pause", reason="r"))
    spoiled = good[:at] + put + good[at + len(put) :]
    try:
        decode(Control, spoiled)
    except (InvalidRecord, UnknownSchema):
        return
    assert schema_name(spoiled) == "Control.v1"
