"""Which buckets recovery looks into, and how often: busy ones twice a second, all others every two seconds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from turngate.recovery.service import HOT_MS, SCAN_ALL_EVERY_MS, SCAN_EVERY_MS, RecoveryDeps, RecoveryHandler
from turngate.recovery.store import Due
from turngate.runtime.clock import ManualClock
from turngate.runtime.records import InputRecord
from turngate.schemas.codec import encode
from turngate.schemas.control import Control
from turngate.topology.keys import bucket_of

KEY = b"acme/c1"
BUSY = bucket_of(KEY)
BUCKETS = sorted({0, 1, 2, 3, BUSY})


class Store:
    """Notes which buckets it is asked about; `due` holds entries that are found once."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.entries: set[int] = set()

    async def replid(self) -> str:
        return "here"

    async def checkpoint(self, *_: object) -> None:
        return None

    async def postpone(self, *_: object) -> None:
        return None

    async def operations(self, *_: object) -> list[object]:
        return []

    async def due(self, buckets: list[int]) -> list[Due]:
        self.asked.append(list(buckets))
        return [Due(bucket, (), ()) for bucket in buckets if bucket in self.entries]


class Quiet:
    async def run(self, before_opening: object) -> bool:
        return False

    async def end_offsets(self, *_: object) -> dict[str, int]:
        return {}


def handler(clock: ManualClock, store: Store) -> RecoveryHandler:
    deps = RecoveryDeps(
        cast(Any, None), {}, frozenset({"acme"}), clock, cast(Any, Quiet()), lambda *_: cast(Any, Quiet()),
        lambda _: BUCKETS, cast(Any, SimpleNamespace(load=None)), 1_000,
    )  # fmt: skip
    made = RecoveryHandler(0, deps)
    made._store = cast(Any, store)
    made._desk._store = cast(Any, store)
    return made


def control() -> InputRecord:
    """A command that is another role's: nothing but a sign that something happens in this bucket."""
    value = encode(Control(tenant="acme", conversation="c1", control_id="x", command="pause"))
    return InputRecord(topic="control", partition=0, offset=0, timestamp_ms=0, key=KEY, value=value, headers=())


async def test_all_buckets_every_two_seconds_and_busy_ones_twice_a_second() -> None:
    clock, store = ManualClock(), Store()
    recovery = handler(clock, store)
    for _ in range(2 * SCAN_ALL_EVERY_MS // SCAN_EVERY_MS):
        await recovery.step([])
        clock.advance(SCAN_EVERY_MS)
    assert store.asked == [BUCKETS, BUCKETS], "nothing happens: nothing is asked in between"
    store.asked.clear()
    await recovery.step([control()])
    for _ in range(3):
        clock.advance(SCAN_EVERY_MS)
        await recovery.step([])
    assert store.asked == [BUCKETS, [BUSY], [BUSY], [BUSY]]
    clock.advance(HOT_MS)
    await recovery.step([])
    store.asked.clear()
    clock.advance(SCAN_EVERY_MS)
    await recovery.step([])
    assert store.asked == [], "it has cooled down"


async def test_a_bucket_with_something_due_is_looked_at_again_soon() -> None:
    clock, store = ManualClock(), Store()
    recovery = handler(clock, store)
    store.entries = {2}
    await recovery.step([])
    clock.advance(SCAN_EVERY_MS)
    await recovery.step([])
    assert store.asked == [BUCKETS, [2]]
