"""Opening a bucket, its keys, and the line of held requests: what no single call shows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from redis.crc import key_slot

from turngate.runtime.redis.keys import LEASES, META, TIMERS, bucket_keys, replay_keys
from turngate.topology.keys import BUCKETS

if TYPE_CHECKING:
    from conftest import Bench

C = "acme/c1"


def test_all_keys_of_a_bucket_lie_in_one_slot_and_buckets_spread() -> None:
    slots = set()
    for bucket in range(BUCKETS):
        keys = (*bucket_keys("turngate", bucket), *replay_keys("turngate", bucket, "acme/c{1}"))
        (slot,) = {key_slot(key.encode()) for key in keys}
        slots.add(slot)
    assert len(slots) > BUCKETS * 0.9


async def open_bucket(bench: Bench, replid: str, token: str, lease_ms: int, *pairs: str, term: int = 1) -> list[str]:
    reply = await bench.scripts("recovery").run("recovery/open_v1", bench.bucket, term, replid, token, lease_ms, *pairs)
    return [value.decode() for value in reply]


async def test_a_bucket_reconciled_against_one_server_is_not_opened_on_another(closed: Bench) -> None:
    here = str((await closed.redis.info("replication"))["master_replid"])
    assert await open_bucket(closed, "f" * 40, "token", 1_000) == ["moved", here]
    assert await closed.dump() == {}
    assert await closed.run("recovery/bucket_v1") == ["closed", here, "", ""]
    assert await open_bucket(closed, here, "token", 1_000, "turns", "17") == ["ok", "token"]
    assert await closed.run("recovery/bucket_v1") == ["open", here, "token", "17"]
    assert await open_bucket(closed, here, "another", 1_000) == ["ok", "token"], "the token of a bucket stays"


async def test_opening_gives_every_attempt_one_more_lease(bench: Bench) -> None:
    await bench.through([("validator/ready_v1", {}), ("dispatcher/accept_v1", {"lease": "1"})])
    await bench.redis.zadd(bench.keys[LEASES], {"op-later": 9e15})
    replid = await bench.field(META, "replid")
    assert (await open_bucket(bench, replid, "token", 60_000))[0] == "ok"
    opened = float(await bench.field(META, "opened"))
    assert await bench.redis.zscore(bench.keys[LEASES], "op-1") == opened + 60_000
    assert await bench.redis.zscore(bench.keys[LEASES], "op-later") == 9e15


async def woken(bench: Bench) -> bool:
    return await bench.redis.zscore(bench.keys[TIMERS], f"wake|{C}") is not None


async def test_held_requests_come_back_in_the_order_of_their_arrival(bench: Bench) -> None:
    await bench.through([("validator/ready_v1", {})])
    for number in ("2", "3", "4"):
        src = f"turn-requests/0@{number}"
        await bench.through([("validator/hold_v1", {"request": f"r-{number}", "bytes": f"b-{number}", "src": src})])
    assert not await woken(bench)
    await bench.through([("dispatcher/accept_v1", {}), ("reassembler/commit_v1", {"calls": ""})])
    assert await woken(bench)
    base = 2
    for number in ("2", "3", "4"):
        assert (await bench.run("recovery/waiting_v1"))[:2] == ["ok", f"b-{number}"]
        op, head = f"op-{number}", str(base)
        ready = {
            "request": f"r-{number}",
            "cause": f"r-{number}/{head}",
            "rev": head,
            "base": head,
            "turn": "",
            "o": op,
        }
        await bench.through([("validator/ready_v1", ready)])
        assert not await woken(bench)
        commit = {"o": op, "base": head, "rev": str(base + 1), "calls": "", "src": f"stream-events/0@{base}"}
        await bench.through([("dispatcher/accept_v1", {"o": op}), ("reassembler/commit_v1", commit)])
        assert await woken(bench) == (number != "4")
        base += 1
    assert await bench.run("recovery/waiting_v1") == ["none"]


async def test_a_request_of_the_middle_of_the_line_may_leave_it(bench: Bench) -> None:
    await bench.through([("validator/ready_v1", {})])
    for number in ("2", "3", "4"):
        await bench.through([("validator/hold_v1", {"request": f"r-{number}", "bytes": f"b-{number}"})])
    for number, first in (("3", "b-2"), ("2", "b-4")):
        again = {"cause": "again", "src": f"turn-requests/0@1{number}"}
        rejected = {"request": f"r-{number}", "verdict": "REJECTED", "bytes": "", **again}
        await bench.through([("validator/hold_v1", rejected)])
        assert (await bench.run("recovery/waiting_v1"))[1] == first


async def test_resuming_wakes_the_line(bench: Bench) -> None:
    paused = {"rev": "0", "verdict": "PAUSED", "reason": "maintenance"}
    await bench.through([("validator/pause_v1", {}), ("validator/hold_v1", paused)])
    assert not await woken(bench)
    await bench.through([("validator/pause_v1", {"control": "ctl-2", "reason": ""})])
    assert await woken(bench)


async def test_a_look_in_vain_doubles_the_wait_for_the_next(bench: Bench) -> None:
    unknown = {"rev": "0", "verdict": "PAUSED", "reason": "unknown_endpoint", "delay": "2000", "longest": "9000"}

    async def look(number: int, cause: str, **more: str) -> tuple[str, int]:
        src = f"turn-requests/0@{number}"
        answer, *_ = await bench.run("validator/hold_v1", **{**unknown, "cause": cause, "src": src, **more})
        seconds, millis = await bench.redis.time()
        due = await bench.redis.zscore(bench.keys[TIMERS], f"wake|{C}") or 0
        return answer, round((due - seconds * 1000 - millis / 1000) / 1000)

    assert await look(1, "") == ("ok", 2)
    assert await look(2, "r-2/0") == ("ok", 2)
    assert await look(3, "r-2/0") == ("same", 4)
    assert await look(4, "r-2/0") == ("same", 8)
    assert await look(5, "r-2/0") == ("same", 9)
    assert await look(6, "r-2/0", reason="unknown_toolset") == ("ok", 2), "another reason is news"
    assert (await bench.run("validator/hold_v1", **{**unknown, "src": "turn-requests/0@6"}))[0] == "stored"
    await bench.run("validator/pause_v1", control="ctl-2", reason="")
    assert await woken(bench)
    due = await bench.redis.zscore(bench.keys[TIMERS], f"wake|{C}") or 9e15
    assert due <= (await bench.redis.time())[0] * 1000 + 999, "a resume looks at once"


LOST = (
    ("recovery/adopt_turn_v1", {
        "rev": "1", "turn": "turn-1", "hd": "hd-1", "kind": "input", "o": "", "gen": "", "calls": ""}),
    ("recovery/adopt_sequence_v1", {}),
    ("recovery/adopt_manifest_v1", {}),
    ("recovery/adopt_dispatch_v1", {}),
    ("recovery/adopt_outcome_v1", {"status": "aborted", "delay": ""}),
)  # fmt: skip
"""What topics say of an operation that was cancelled while its attempt ran."""


async def test_a_cancelled_attempt_read_back_holds_its_conversation_until_there_is_evidence(bench: Bench) -> None:
    await bench.through(LOST)
    assert (await bench.run("recovery/operation_v1"))[1] == "CANCELLED"
    following = {"request": "r-9", "o": "op-9", "rev": "1", "base": "1", "turn": "", "src": "turn-requests/0@9"}
    assert await bench.run("validator/ready_v1", **following) == ["busy", "op-1"]
    late = {"src": "stream-events/0@9", "state": "UNKNOWN", "evidence": "", "delay": "", "cancelled": "1"}
    assert (await bench.run("reassembler/end_v1", **late))[0] == "late", "it is told only once"
    assert (await bench.run("recovery/evidence_v1"))[0] == "ok"
    assert await bench.run("reassembler/end_v1", **late | {"evidence": "operator"}) == ["released"]
    assert await bench.run("validator/ready_v1", **following) == ["ok"]


async def test_one_that_another_operation_followed_had_its_evidence(bench: Bench) -> None:
    await bench.through([*LOST[:-1], ("recovery/adopt_sequence_v1", {"o": "op-2"}), LOST[-1]])
    assert (await bench.run("recovery/operation_v1"))[1] == "FAILED"
    assert await bench.field(1, f"{C}|op") == "op-2"


ADOPTED = (
    ("recovery/adopt_turn_v1", {
        "rev": "1", "turn": "turn-1", "hd": "hd-1", "kind": "input", "o": "", "gen": "", "calls": ""}),
    ("recovery/adopt_sequence_v1", {}),
    ("recovery/adopt_manifest_v1", {}),
    ("recovery/adopt_dispatch_v1", {}),
    ("recovery/adopt_dispatch_v1", {"gen": "2"}),
    ("recovery/adopt_outcome_v1", {"delay": "1"}),
)  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(len(ADOPTED))))[::23])
async def test_effects_adopted_in_any_order_raise_to_the_same_attempt(bench: Bench, order: tuple[int, ...]) -> None:
    """A second generation that was dispatched is never lowered by what is read of the first."""
    for _ in range(2):
        for index in order:
            script, changes = ADOPTED[index]
            await bench.run(script, **changes)
    row = await bench.run("recovery/operation_v1")
    assert row[1:6] == ["UNKNOWN", C, "2", "1", "d-0"]
    assert await bench.field(1, f"{C}|rev") == "1"
