"""The contract of every script: taken once, answered again from what is stored, and closed to whoever is fenced off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from turngate.runtime.redis.scripts import CLOSED_BUCKET_PREFIXES, BucketClosed, TermFenced, load_sources

if TYPE_CHECKING:
    from conftest import Bench

Step = tuple[str, Mapping[str, str]]
Answer = Sequence[str]


def s(script: str, **changes: str) -> Step:
    return script, changes


READY, ACCEPT, BIND = s("validator/ready_v1"), s("dispatcher/accept_v1"), s("reassembler/bind_v1")
COMMIT, OPEN, SETTLE = s("reassembler/commit_v1"), s("ledger/open_v1"), s("ledger/settle_v1")
NO_CALLS = s("reassembler/commit_v1", calls="")
END, CANCEL = s("reassembler/end_v1"), s("ledger/cancel_v1")
LOST = s("reassembler/end_v1", state="UNKNOWN", evidence="", delay="", owed="")
PAUSE = s("validator/pause_v1")
ASKED = s("ledger/open_v1", st="AWAITING_APPROVAL")
PENDING = s("ledger/open_v1", st="PENDING")
SENT: tuple[Step, ...] = (READY, ACCEPT)
OPENED: tuple[Step, ...] = (*SENT, COMMIT, OPEN)
RESUMED: tuple[Step, ...] = (*SENT, LOST, s("dispatcher/accept_v1", expected="1", src="sequences/0@5", mode="resume"))
ABORTED: tuple[Step, ...] = (
    *SENT, CANCEL, s("reassembler/end_v1", state="ABORTED", evidence="", delay="", cancelled="1"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One script: what comes before it, its first answer, its answer to the very same call again."""

    run: Step
    before: Sequence[Step]
    first: Answer
    again: Answer


CASES: Mapping[str, Case] = {
    "ready": Case(READY, (), ("ok",), ("stored", "owed-ready", "1")),
    "ready, without a turn": Case(
        s("validator/ready_v1", base="0", turn="", hd=""), (), ("ok",), ("stored", "owed-ready", "1")
    ),
    "hold": Case(s("validator/hold_v1"), (READY,), ("ok",), ("stored", "owed-hold", "1")),
    "hold, rejected": Case(
        s("validator/hold_v1", verdict="REJECTED", bytes=""), (READY,), ("ok",), ("stored", "owed-hold", "1")
    ),
    "pause": Case(PAUSE, (), ("ok",), ("stored", "owed-pause")),
    "commit": Case(COMMIT, (*SENT, BIND), ("ok",), ("stored", "COMMITTED", "owed-commit")),
    "commit, late": Case(COMMIT, (*SENT, LOST), ("ok",), ("stored", "COMMITTED", "owed-commit")),
    "end, retried": Case(END, SENT, ("ok", "TERMINATED"), ("stored", "TERMINATED", "owed-end")),
    "end, failed": Case(
        s("reassembler/end_v1", state="FAILED", delay=""), SENT, ("ok", "FAILED"), ("stored", "FAILED", "owed-end")
    ),
    "end, unknown": Case(LOST, SENT, ("ok", "UNKNOWN"), ("ok", "UNKNOWN")),
    "end, aborted": Case(
        ABORTED[-1], ABORTED[:-1], ("ok", "ABORTED"), ("stored", "ABORTED", "owed-end")
    ),
    "end, of a cancelled one, with evidence": Case(
        s("reassembler/end_v1", state="FAILED", delay="", cancelled="1"), (*SENT, CANCEL), ("ok", "FAILED"),
        ("stored", "FAILED", "owed-end"),
    ),
    "end, evidence after the abort": Case(
        s("reassembler/end_v1", state="UNKNOWN", src="stream-events/0@11"), ABORTED, ("released",), ("late", "decided")
    ),
    "bind": Case(BIND, SENT, ("ok",), ("ok",)),
    "bind, once decided": Case(BIND, (*SENT, BIND, COMMIT), ("ok",), ("ok",)),
    "open": Case(OPEN, (*SENT, COMMIT), ("ok",), ("stored", "owed-open")),
    "ask": Case(s("ledger/ask_v1"), (*SENT, COMMIT, PENDING), ("ok",), ("ok",)),
    "order again": Case(s("ledger/order_v1"), OPENED, ("ok",), ("stored", "owed-order")),
    "order after approval": Case(
        s("ledger/order_v1", st="AWAITING_APPROVAL", att="0"), (*SENT, COMMIT, ASKED), ("ok",), ("stored", "owed-order")
    ),
    "progress": Case(s("ledger/progress_v1"), OPENED, ("ok",), ("again",)),
    "settle": Case(SETTLE, OPENED, ("ok", "0"), ("stored", "owed-settle", "0")),
    "settle, by the ledger": Case(
        s("ledger/settle_v1", own="1", status="cancelled"), (*SENT, COMMIT, ASKED), ("ok", "0"),
        ("stored", "owed-settle", "0"),
    ),
    "turn": Case(s("ledger/turn_v1"), (*OPENED, SETTLE), ("ok", "next"), ("stored", "owed-next")),
    "turn, the last": Case(s("ledger/turn_v1", want=""), (*OPENED, SETTLE), ("ok", "end"), ("stored", "owed-last")),
    "turn, with a request in line": Case(
        s("ledger/turn_v1"), (READY, s("validator/hold_v1"), *OPENED[1:], SETTLE), ("ok", "held"),
        ("stored", "owed-last"),
    ),
    "cancel": Case(
        CANCEL, SENT, ("ok", "op-1", "DISPATCHING", "1", "1", "", "1"), ("ok", "op-1", "DISPATCHING", "1", "1", "", "1")
    ),
    "cancel, before it was sent": Case(
        CANCEL, (READY,), ("ok", "op-1", "PREPARED", "0", "0", "", "1"), ("ok", "op-1", "PREPARED", "0", "0", "", "1")
    ),
    "cancel, calls": Case(
        s("ledger/cancel_v1", o=""), OPENED, ("ok", "", "", "0", "0", "2", "1"), ("ok", "", "", "0", "0", "2", "1")
    ),
    "evidence": Case(s("recovery/evidence_v1"), (*SENT, LOST), ("ok", "1", "operator"), ("ok", "1", "operator")),
    "waiting": Case(
        s("recovery/waiting_v1"), (READY, s("validator/hold_v1")), ("ok", "request-2", "1"), ("ok", "request-2", "1")
    ),
    "checkpoint": Case(s("recovery/checkpoint_v1"), (), ("ok",), ("ok",)),
    "snapshot": Case(
        s("edge/snapshot_v1"), (*SENT, COMMIT, ASKED), ("ok", "2", "0", "", "", "0", "2", "", K := "acme/c1/2/call_1",
        "weather"), ("ok", "2", "0", "", "", "0", "2", "", K, "weather"),
    ),
    "adopted sequence": Case(s("recovery/adopt_sequence_v1", base="0"), (), ("ok",), ("known",)),
    "adopted manifest": Case(s("recovery/adopt_manifest_v1"), (), ("ok",), ("ok",)),
    "adopted dispatch": Case(s("recovery/adopt_dispatch_v1"), (), ("ok",), ("behind",)),
    "adopted begin": Case(s("recovery/adopt_begin_v1"), (), ("ok",), ("behind",)),
    "adopted outcome": Case(s("recovery/adopt_outcome_v1"), (), ("ok",), ("behind",)),
    "adopted turn": Case(s("recovery/adopt_turn_v1"), (), ("ok",), ("behind",)),
    "adopted calls": Case(s("recovery/adopt_calls_v1"), (s("recovery/adopt_turn_v1"),), ("ok",), ("known",)),
    "adopted order": Case(s("recovery/adopt_order_v1"), (s("recovery/adopt_turn_v1"),), ("ok",), ("behind",)),
    "adopted result": Case(
        s("recovery/adopt_settled_v1"), (s("recovery/adopt_turn_v1"), s("recovery/adopt_calls_v1")), ("ok", "0"),
        ("behind",),
    ),
    "adopted question": Case(
        s("recovery/adopt_approval_v1"), (s("recovery/adopt_turn_v1"), s("recovery/adopt_calls_v1")), ("ok",),
        ("behind",),
    ),
    "adopted verdict": Case(s("recovery/adopt_verdict_v1"), (), ("ok",), ("ok",)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_once_and_again(bench: Bench, name: str) -> None:
    case = CASES[name]
    await bench.through(case.before)
    script, changes = case.run
    assert tuple(await bench.run(script, **changes)) == case.first
    stored = await bench.dump()
    assert tuple(await bench.run(script, **changes)) == case.again
    assert untimed(await bench.dump()) == untimed(stored)


def untimed(dump: dict[str, object]) -> dict[str, object]:
    """Without due times: a timer that is set again may be due later."""
    return {
        key: sorted(value) if key.endswith((":leases", ":timers")) and isinstance(value, dict) else value
        for key, value in dump.items()
    }


@dataclass(frozen=True, slots=True)
class Fence:
    """A call that must change nothing. before: what has been taken; answer: how it begins."""

    run: Step
    before: Sequence[Step]
    answer: Answer


OTHER_OP = s(
    "validator/ready_v1", request="r-9", o="op-9", rev="1", base="1", turn="", cause="x", src="turn-requests/0@9"
)
DONE: tuple[Step, ...] = (*SENT, NO_CALLS)
RETRY: tuple[Step, ...] = (*SENT, END)
SECOND = s("dispatcher/accept_v1", expected="1", src="sequences/0@2")
BUMPED = s("ledger/cancel_v1", o="", cg="", control="ctl-9", src="control/0@9")
EVIDENT = s("recovery/evidence_v1")

FENCES: Mapping[str, Fence] = {
    # The validator: one answer a request, one turn a revision, one open operation a conversation.
    "ready: another cause of an answered request": Fence(
        s("validator/ready_v1", cause="other", src="turn-requests/0@7"), (READY,), ("stored", "owed-ready", "0")),
    "ready: head moved": Fence(s("validator/ready_v1", rev="1"), (), ("changed",)),
    "ready: head behind": Fence(s("validator/ready_v1", request="r-2"), DONE, ("changed",)),
    "ready: cancelled meanwhile": Fence(s("validator/ready_v1"), (BUMPED,), ("changed",)),
    "ready: an operation is open": Fence(
        s("validator/ready_v1", request="r-2", rev="1", base="2"), (READY,), ("busy", "op-1")),
    "ready: calls are open": Fence(
        s("validator/ready_v1", request="r-2", rev="2", base="3"), (*SENT, COMMIT), ("calls", "2")),
    "ready: paused": Fence(READY, (PAUSE,), ("paused", "maintenance")),
    "hold: head moved": Fence(s("validator/hold_v1", rev="7"), (READY,), ("changed",)),
    "hold: cancelled meanwhile": Fence(s("validator/hold_v1"), (READY, BUMPED), ("changed",)),
    "hold: what it waits for is over": Fence(s("validator/hold_v1", rev="2"), DONE, ("changed",)),
    "hold: no longer paused": Fence(
        s("validator/hold_v1", rev="0", verdict="PAUSED", reason="maintenance"),
        (PAUSE, s("validator/pause_v1", control="ctl-2", reason="")), ("changed",)),
    "hold: an answered request": Fence(
        s("validator/hold_v1", request="r-1", cause="other"), (READY,), ("stored", "owed-ready", "0")),
    # The send door.
    "accept: unknown": Fence(s("dispatcher/accept_v1", o="op-x"), (READY,), ("refused", "unknown_operation")),
    "accept: another record of the same generation": Fence(
        s("dispatcher/accept_v1", src="sequences/0@8"), SENT, ("already", "1")),
    "accept: a generation that is over": Fence(
        s("dispatcher/accept_v1", src="sequences/0@8"), (*RETRY, SECOND), ("already", "2")),
    "accept: a generation to come": Fence(s("dispatcher/accept_v1", expected="5"), (READY,), ("already", "0")),
    "accept: other bytes": Fence(
        s("dispatcher/accept_v1", expected="1", src="sequences/0@2", md="other"), RETRY, ("refused", "render_drift")),
    "accept: cancelled": Fence(
        s("dispatcher/accept_v1", src="sequences/0@2"), (READY, CANCEL), ("refused", "cancelled")),
    "accept: cancelled, the very same record": Fence(ACCEPT, (*SENT, CANCEL), ("refused", "cancelled")),
    "accept: head moved": Fence(
        ACCEPT, (READY, s("recovery/adopt_turn_v1", o="", gen="", calls="")), ("refused", "stale_revision")),
    "accept: not the open operation": Fence(
        ACCEPT, (READY, s("recovery/adopt_sequence_v1", o="op-2")), ("refused", "parked")),
    "accept: the same record once it is resolved": Fence(ACCEPT, (*SENT, LOST, EVIDENT), ("already", "1")),
    "accept: failed": Fence(
        s("dispatcher/accept_v1", expected="1", src="sequences/0@2"),
        (*SENT, s("reassembler/end_v1", state="FAILED", delay="")), ("refused", "parked")),
    "accept: a live one is not sent again": Fence(
        s("dispatcher/accept_v1", expected="1", src="sequences/0@2"), SENT, ("refused", "dispatching")),
    "accept: a live one is not resumed": Fence(
        s("dispatcher/accept_v1", expected="1", src="sequences/0@2", mode="resume"), SENT, ("refused", "dispatching")),
    "accept: a resolved one is not resumed": Fence(
        s("dispatcher/accept_v1", expected="1", src="sequences/0@2", mode="resume"), (*SENT, LOST, EVIDENT),
        ("refused", "unknown")),
    # Renewal.
    **{
        f"renew: another {name}": Fence(s("dispatcher/renew_v1", **{name: "9"}), SENT, ("ok", "lost"))
        for name in ("owner", "boot", "o", "gen", "relay")
    },
    "renew: resolved": Fence(s("dispatcher/renew_v1"), (*SENT, LOST, EVIDENT), ("ok", "lost")),
    "renew: cancelled": Fence(s("dispatcher/renew_v1"), (*SENT, CANCEL), ("ok", "lost")),
    "renew: committed": Fence(s("dispatcher/renew_v1"), DONE, ("ok", "lost")),
    "renew: over": Fence(s("dispatcher/renew_v1"), RETRY, ("ok", "lost")),
    # The bind.
    "bind: unknown": Fence(s("reassembler/bind_v1", o="op-x"), SENT, ("foreign", "unknown_operation")),
    "bind: an old generation": Fence(BIND, (*RETRY, SECOND), ("foreign", "late_generation")),
    "bind: an old relay": Fence(BIND, RESUMED, ("foreign", "late_relay")),
    "bind: a relay nobody accepted": Fence(s("reassembler/bind_v1", relay="2"), SENT, ("foreign", "unknown_relay")),
    "bind: another manifest": Fence(s("reassembler/bind_v1", md="other"), SENT, ("foreign", "other_manifest")),
    "bind: another handle": Fence(s("reassembler/bind_v1", handle="h-2"), (*SENT, BIND), ("foreign", "rebound_handle")),
    "bind: committed": Fence(BIND, DONE, ("ok",)),
    "bind: over": Fence(s("reassembler/bind_v1", handle="h-2"), RETRY, ("ok",)),
    # The commit.
    "commit: unknown": Fence(s("reassembler/commit_v1", o="op-x"), SENT, ("lost", "unknown_operation")),
    "commit: never sent": Fence(COMMIT, (READY,), ("lost", "prepared")),
    "commit: an old generation": Fence(
        s("reassembler/commit_v1", src="stream-events/0@99"), (*RETRY, SECOND), ("lost", "decided")),
    "commit: a generation to come": Fence(s("reassembler/commit_v1", gen="2"), SENT, ("lost", "late_generation")),
    "commit: another manifest": Fence(s("reassembler/commit_v1", md="other"), SENT, ("lost", "other_manifest")),
    "commit: another base": Fence(s("reassembler/commit_v1", base="0", rev="1"), SENT, ("lost", "revision_conflict")),
    "commit: another cancel generation": Fence(s("reassembler/commit_v1", cg="1"), SENT, ("lost", "cancelled")),
    "commit: cancelled": Fence(COMMIT, (*SENT, CANCEL), ("lost", "cancelled")),
    "commit: not the open operation": Fence(
        COMMIT, (*SENT, s("recovery/adopt_sequence_v1", o="op-2")), ("lost", "not_the_open_operation")),
    "commit: another frame": Fence(s("reassembler/commit_v1", src="stream-events/0@99"), DONE, ("lost", "decided")),
    "commit: terminated": Fence(s("reassembler/commit_v1", src="stream-events/0@99"), RETRY, ("lost", "decided")),
    # Any other end.
    "end: unknown": Fence(s("reassembler/end_v1", o="op-x"), SENT, ("late", "unknown_operation")),
    "end: never sent": Fence(s("reassembler/end_v1", gen="0", relay="0"), (READY,), ("late", "prepared")),
    "end: an old generation": Fence(
        s("reassembler/end_v1", src="stream-events/0@99"), (*RETRY, SECOND), ("late", "decided")),
    "end: a generation to come": Fence(s("reassembler/end_v1", gen="2"), SENT, ("late", "late_generation")),
    "end: an old relay": Fence(END, RESUMED, ("late", "late_relay")),
    "end: a relay nobody accepted": Fence(s("reassembler/end_v1", relay="2"), SENT, ("late", "unknown_relay")),
    "end: committed": Fence(s("reassembler/end_v1", src="stream-events/0@99"), DONE, ("late", "decided")),
    "end: the lease is held": Fence(s("reassembler/end_v1", expired="1"), SENT, ("late", "lease_renewed")),
    "end: unknown, the lease is held": Fence((LOST[0], {**LOST[1], "expired": "1"}), SENT, ("late", "lease_renewed")),
    "end: without evidence": Fence(s("reassembler/end_v1", evidence=""), SENT, ("late", "no_evidence")),
    "end: failed without evidence": Fence(
        s("reassembler/end_v1", state="FAILED", evidence="", delay=""), SENT, ("late", "no_evidence")),
    "end: a cancelled one is not retried": Fence(
        s("reassembler/end_v1", cancelled="1"), (*SENT, CANCEL), ("changed",)),
    "end: a cancel has come in": Fence(s("reassembler/end_v1", began="1"), (*SENT, CANCEL), ("changed",)),
    "end: evidence has come in": Fence(LOST, (*SENT, LOST, EVIDENT), ("changed",)),
    "end: no cancel has come in": Fence(s("reassembler/end_v1", cancelled="1"), SENT, ("changed",)),
    "end: evidence of another relay does not release": Fence(
        s("reassembler/end_v1", state="UNKNOWN", relay="0", src="stream-events/0@11"), ABORTED, ("late", "decided")),
    # The ledger.
    "cancel: another operation": Fence(s("ledger/cancel_v1", o="op-x"), SENT, ("late", "not_the_open_operation")),
    "cancel: another cancel generation": Fence(
        s("ledger/cancel_v1", cg="4"), SENT, ("late", "other_cancel_generation")),
    "cancel: the same control of another record": Fence(
        s("ledger/cancel_v1", src="control/0@99"), (*SENT, CANCEL), ("ok", "op-1", "DISPATCHING", "1", "1", "", "")),
    "open: another record": Fence(s("ledger/open_v1", src="turns/0@99"), OPENED, ("late", "already_open")),
    "open: not the head's calls": Fence(s("ledger/open_v1", rev="1"), (*SENT, COMMIT), ("late", "not_open")),
    "open: no calls": Fence(OPEN, DONE, ("late", "not_open")),
    "ask: ordered": Fence(s("ledger/ask_v1"), OPENED, ("late", "ORDERED")),
    "ask: unknown": Fence(s("ledger/ask_v1", k="x"), OPENED, ("late", "")),
    "order: unknown": Fence(s("ledger/order_v1", k="x"), OPENED, ("late", "unknown_call")),
    "order: another state": Fence(s("ledger/order_v1", st="AWAITING_APPROVAL"), OPENED, ("late", "ordered")),
    "order: another attempt": Fence(s("ledger/order_v1", att="2"), OPENED, ("late", "other_attempt")),
    "order: settled": Fence(s("ledger/order_v1"), (*OPENED, SETTLE), ("late", "settled")),
    "order: the same control of another record": Fence(
        s("ledger/order_v1", src="control/0@99"), (*OPENED, s("ledger/order_v1")), ("late", "already_done")),
    "progress: unknown": Fence(s("ledger/progress_v1", k="x"), OPENED, ("foreign", "unknown_call")),
    "progress: another key": Fence(s("ledger/progress_v1", idem="x"), OPENED, ("foreign", "result_mismatch")),
    "progress: settled": Fence(s("ledger/progress_v1"), (*OPENED, SETTLE), ("foreign", "already_settled")),
    **{
        f"settle: another {name}": Fence(s("ledger/settle_v1", **{name: "9"}), OPENED, ("foreign", "result_mismatch"))
        for name in ("rev", "idem", "ad", "gen", "tool")
    },
    "settle: unknown": Fence(s("ledger/settle_v1", k="x"), OPENED, ("foreign", "unknown_call")),
    "settle: not approved": Fence(SETTLE, (*SENT, COMMIT, ASKED), ("foreign", "not_ordered")),
    "settle: not asked": Fence(SETTLE, (*SENT, COMMIT, PENDING), ("foreign", "not_ordered")),
    "settle: a second result": Fence(
        s("ledger/settle_v1", src="tool-results/0@2", res="other"), (*OPENED, SETTLE), ("foreign", "already_settled")),
    "turn: calls are open": Fence(s("ledger/turn_v1"), OPENED, ("late", "calls_open")),
    "turn: another record": Fence(
        s("ledger/turn_v1", src="tool-results/0@9"), (*OPENED, SETTLE, s("ledger/turn_v1")),
        ("late", "already_committed")),
    "turn: head moved": Fence(
        s("ledger/turn_v1"),
        (*OPENED, SETTLE, s("recovery/adopt_turn_v1", rev="3", kind="tool", o="", gen="", calls="")),
        ("late", "revision_conflict")),
    # Recovery.
    "evidence: unknown": Fence(s("recovery/evidence_v1", o="op-x"), SENT, ("late", "unknown_operation")),
    "evidence: another generation": Fence(
        s("recovery/evidence_v1", gen="2"), (*SENT, LOST), ("late", "late_generation")),
    "evidence: a live attempt": Fence(EVIDENT, SENT, ("late", "dispatching")),
    "evidence: a second one": Fence(
        s("recovery/evidence_v1", evidence="timeLimit"), (*SENT, LOST, EVIDENT), ("ok", "1", "operator")),
    "evidence: committed": Fence(EVIDENT, DONE, ("late", "committed")),
    "adopted dispatch: an old relay": Fence(s("recovery/adopt_dispatch_v1"), RESUMED, ("behind",)),
    "adopted dispatch: an old generation": Fence(s("recovery/adopt_dispatch_v1"), (*RETRY, SECOND), ("behind",)),
    "adopted dispatch: committed": Fence(s("recovery/adopt_dispatch_v1", gen="3"), DONE, ("behind",)),
    "adopted dispatch: its outcome is known": Fence(
        s("recovery/adopt_dispatch_v1"), (s("recovery/adopt_outcome_v1"),), ("behind",)),
    "adopted begin: an old generation": Fence(
        s("recovery/adopt_begin_v1"), (s("recovery/adopt_begin_v1", gen="2"),), ("behind",)),
    "adopted outcome: an old generation": Fence(s("recovery/adopt_outcome_v1"), (*RETRY, SECOND), ("behind",)),
    "adopted outcome: known": Fence(s("recovery/adopt_outcome_v1"), RETRY, ("behind",)),
    "adopted outcome: committed": Fence(s("recovery/adopt_outcome_v1", gen="2"), DONE, ("behind",)),
    "adopted outcome: completed": Fence(s("recovery/adopt_outcome_v1", status="completed"), SENT, ("behind",)),
    "adopted turn: known": Fence(s("recovery/adopt_turn_v1"), (*SENT, COMMIT), ("behind",)),
    "adopted calls: opened": Fence(s("recovery/adopt_calls_v1"), OPENED, ("known",)),
    "adopted calls: not the head's": Fence(s("recovery/adopt_calls_v1"), DONE, ("none",)),
    "adopted calls: of an input turn": Fence(s("recovery/adopt_calls_v1", kind="input"), (*SENT, COMMIT), ("none",)),
    "adopted order: known": Fence(s("recovery/adopt_order_v1"), OPENED, ("behind",)),
    "adopted order: settled": Fence(s("recovery/adopt_order_v1", att="5"), (*OPENED, SETTLE), ("behind",)),
    "adopted result: settled": Fence(
        s("recovery/adopt_settled_v1", status="error", res="other"), (*OPENED, SETTLE), ("behind",)),
    "adopted question: ordered": Fence(s("recovery/adopt_approval_v1"), OPENED, ("behind",)),
    "adopted sequence: known": Fence(s("recovery/adopt_sequence_v1", seq="other"), SENT, ("known",)),
    "postpone: no such timer": Fence(s("recovery/postpone_v1"), (READY,), ("ok",)),
    # Looking changes nothing.
    "load, validator": Fence(s("validator/load_v1"), OPENED, ("ok", "2", "hd-2", "0", "", "2", "", "READY", "",
                                                              "owed-ready", "turn-requests/0@1")),
    "load, ledger": Fence(s("ledger/load_v1"), OPENED, ("ok", "turn-2", "hd-2", "1", "acme/c1/2/call_1", "ORDERED", "1",
                                                        "order-1", "")),
    "lookup": Fence(s("reassembler/lookup_v1"), SENT, ("ok", "DISPATCHING", "1", "1", "spec", "manifest", "1", "0", "0",
                                                       "hd-1")),
    "lookup, unknown": Fence(s("reassembler/lookup_v1", o="op-x"), SENT, ("ok", "", "")),
    "operation": Fence(
        s("recovery/operation_v1"), SENT, ("ok", "DISPATCHING", "acme/c1", "1", "1", "d-0", "7", "spec")),
    "snapshot": Fence(s("edge/snapshot_v1"), SENT, ("ok", "1", "0", "op-1", "DISPATCHING", "1", "", "")),
    "waiting, nobody": Fence(s("recovery/waiting_v1"), SENT, ("none",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FENCES)
async def test_what_is_fenced_off_changes_nothing(lone: Bench, name: str) -> None:
    fence = FENCES[name]
    await lone.through(fence.before)
    before = await lone.dump()
    script, changes = fence.run
    answer = await lone.run(script, **changes)
    assert tuple(answer[: len(fence.answer)]) == fence.answer
    assert await lone.dump() == before


GUARDED = sorted(name for name in load_sources() if not name.startswith(CLOSED_BUCKET_PREFIXES))


def test_every_script_is_held_to_a_contract() -> None:
    held = {case.run[0] for case in CASES.values()} | {fence.run[0] for fence in FENCES.values()}
    elsewhere = {"recovery/open_v1", "recovery/bucket_v1", "edge/append_v1"}
    assert held | elsewhere == set(load_sources())
    fenced = {fence.run[0] for fence in FENCES.values()}
    unfenced = {
        "recovery/adopt_manifest_v1",
        "recovery/adopt_verdict_v1",
        "recovery/checkpoint_v1",
        "validator/pause_v1",
    }
    assert fenced | elsewhere | unfenced == set(load_sources())


@pytest.mark.parametrize("script", GUARDED)
async def test_no_script_touches_a_bucket_that_is_not_open_here(closed: Bench, script: str) -> None:
    with pytest.raises(BucketClosed):
        await closed.run(script)
    assert await closed.dump() == {}
    await closed.open()
    await closed.redis.hset(closed.keys[0], "replid", "another")
    before = await closed.dump()
    with pytest.raises(BucketClosed):
        await closed.run(script)
    assert await closed.dump() == before


@pytest.mark.parametrize("script", GUARDED)
async def test_no_script_obeys_an_earlier_owner(lone: Bench, script: str) -> None:
    role = script.partition("/")[0]
    await lone.redis.hset(lone.keys[0], f"term:{role}", 5)
    before = await lone.dump()
    with pytest.raises(TermFenced):
        await lone.run(script, term=4)
    assert await lone.dump() == before
    assert await lone.field(0, f"term:{role}") == "5"
    await lone.run(script, term=6)
    assert await lone.field(0, f"term:{role}") == "6"
