"""What a table entry holds, what a query makes of the entries, and which records are not counted."""

from __future__ import annotations

import pytest

from turngate.observer.reading import read_turn
from turngate.observer.windows import KEPT_SECONDS, Entry, Key, counted, is_stale, per_minute
from turngate.runtime.records import InputRecord
from turngate.runtime.settings import Settings
from turngate.schemas.codec import encode
from turngate.schemas.turn import Turn
from turngate.topology.keys import partition_of

PARTITIONS = 4
SETTINGS = Settings(kafka="a:1", redis="redis://b:2/0", partitions=PARTITIONS, tenants=("acme",))
KEY = b"acme/c1"
RIGHT = partition_of(KEY, PARTITIONS)
MINUTE = 1_700_000_040.0
GOOD = encode(
    Turn(tenant="acme", conversation="c1", revision=1, kind="input", blocks=(), cause_id="r1", history_digest="0" * 64)
)


def key(partition: int, tenant: str, minute: float = MINUTE) -> Key:
    return ((partition, tenant), (minute, minute + 59.9))


def record(**fields: object) -> InputRecord:
    plain = {"partition": RIGHT, "offset": 7, "timestamp_ms": 1, "key": KEY, "value": GOOD}
    return InputRecord("turns", **{**plain, **fields})  # type: ignore[arg-type]


def test_a_record_read_again_is_not_counted_again() -> None:
    entry: Entry | None = None
    for offset in (3, 4, 9, 3, 4, 9, 10):
        entry = counted(entry, offset) or entry
    assert entry == [4, 11]


def test_the_first_record_of_a_partition_is_counted() -> None:
    assert counted(None, 0) == [1, 1]
    assert counted([1, 1], 0) is None


def test_a_tenant_is_summed_over_the_partitions_held_here_newest_first() -> None:
    entries: list[tuple[Key, Entry]] = [
        (key(0, "acme"), [2, 9]),
        (key(1, "acme"), [3, 4]),
        (key(2, "acme"), [50, 60]),
        (key(0, "acme", MINUTE + 60), [1, 12]),
        (key(0, "other"), [7, 8]),
        (key(0, "acme", MINUTE - 2 * KEPT_SECONDS), [9, 9]),
    ]
    assert per_minute(entries, "acme", {0, 1}, MINUTE + 90) == [
        {"start": "2023-11-14T22:15:00Z", "turns": 1},
        {"start": "2023-11-14T22:14:00Z", "turns": 5},
    ]
    assert per_minute(entries, "nobody", {0, 1}, MINUTE) == []


def test_a_window_is_kept_for_an_hour_after_its_end() -> None:
    assert not is_stale(key(0, "acme"), MINUTE + 59.9 + KEPT_SECONDS)
    assert is_stale(key(0, "acme"), MINUTE + 60 + KEPT_SECONDS)


def test_a_turn_is_read() -> None:
    turn = read_turn(record(), SETTINGS)
    assert isinstance(turn, Turn)
    assert (turn.tenant, turn.kind) == ("acme", "input")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"value": b"{"}, "malformed_json"),
        ({"value": GOOD.replace(b"Turn.v1", b"Turn.v9")}, "unknown_schema"),
        ({"value": GOOD.replace(b'"input"', b'"other"')}, "invalid_record"),
        ({"value": None}, "null_value"),
        ({"key": None}, "null_key"),
        ({"value": GOOD.replace(b'"c1"', b'"c2"')}, "key_mismatch"),
        (
            {"value": GOOD.replace(b'"acme"', b'"x"'), "key": b"x/c1", "partition": partition_of(b"x/c1", PARTITIONS)},
            "unknown_tenant",
        ),
        # Its copy on the right partition is counted; this one is not.
        ({"partition": (RIGHT + 1) % PARTITIONS}, "misrouted"),
    ],
)
def test_what_cannot_be_counted_has_a_reason(fields: dict[str, object], reason: str) -> None:
    assert read_turn(record(**fields), SETTINGS) == reason
