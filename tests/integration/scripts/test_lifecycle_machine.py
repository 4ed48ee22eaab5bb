"""Random calls of the lifecycle's scripts against the transition table: no arrow outside it ever happens.

Each rule asks as a role might, right or wrong: with the attempt's own generation and relay or with others', with a
frame that was answered before or a new one. The answer says which arrow the script took; the stored state must be the
one the table has for it, and without an arrow nothing but due times may change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from turngate.domain.dispatch.lifecycle import TRANSITIONS, State, Step, next_state

if TYPE_CHECKING:
    from conftest import QuickBench

C = "acme/c1"
DECIDED_FOR_GOOD = {State.COMMITTED, State.FAILED}
OFF = st.sampled_from([-1, 1])
"""How far a wrong number is from the stored one."""
AGAIN = st.sampled_from([False, False, False, True])


def wrong(*names: str) -> st.SearchStrategy[str]:
    """What a caller is wrong about: mostly nothing, at most one thing."""
    return st.sampled_from(["", "", "", "", "", "", *names])


OWNERS = st.sampled_from(["d-0", "d-1"])
END_STEPS = {"UNKNOWN": Step.LOSE, "ABORTED": Step.LOSE, "TERMINATED": Step.TERMINATE, "FAILED": Step.FAIL}


class Lifecycle(RuleBasedStateMachine):
    """One conversation. `stored` is what the last call left behind."""

    make: ClassVar[Callable[[], QuickBench]]
    taken: ClassVar[set[tuple[State, Step]]]

    def __init__(self) -> None:
        super().__init__()
        self.bench = type(self).make()
        self.stored = self.bench.stored()
        self.numbers = itertools.count(1)
        self.sources: dict[tuple[str, str], str] = {}
        self.operations: list[str] = []
        self.seen: dict[str, tuple[State, int, int]] = {}
        self.head = 0
        self.cancels = 0

    # --- what is stored ----------------------------------------------------------------------------------------------

    def head_of(self, name: str) -> str:
        return self.stored["heads"].get(f"{C}|{name}", "")

    def of(self, op: str, name: str) -> str:
        return self.stored["ops"].get(f"{op}|{name}", "")

    def place(self, op: str) -> tuple[State, int, int]:
        return State(self.of(op, "st")), int(self.of(op, "gen")), int(self.of(op, "relay"))

    def current(self, what: str, off: int) -> dict[str, str]:
        """The newest operation's attempt; its generation or relay is off where that is what is wrong."""
        op = self.operations[-1]
        _, gen, relay = self.place(op)
        gen, relay = gen + off * (what == "generation"), relay + off * (what == "relay")
        return {"o": op, "gen": str(gen), "relay": str(relay)}

    def manifest(self, op: str, what: str) -> str:
        return "odd" if what == "manifest" else self.of(op, "md")

    def source(self, topic: str, what: str, again: bool) -> str:
        """The record that causes a step: the last one of its kind again, or a new one."""
        if not again or (topic, what) not in self.sources:
            self.sources[topic, what] = f"{topic}/0@{next(self.numbers)}"
        return self.sources[topic, what]

    def run(self, script: str, **changes: str) -> list[str]:
        answer = self.bench.run(script, **changes)
        self.before, self.stored = self.stored, self.bench.stored()
        return answer

    def check(self, op: str, step: Step | None) -> None:
        """The arrow an answer names leads where the table says; without one, nothing has changed."""
        if step is None:
            assert self.stored == self.before
            return
        was = State(self.before["ops"][f"{op}|st"])
        self.taken.add((was, step))
        assert self.place(op)[0] is next_state(was, step), f"{was} {step} {self.place(op)[0]}"

    # --- the roles ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.head_of("op"))
    @rule(with_turn=st.booleans())
    def ready(self, with_turn: bool) -> None:
        self.ask(with_turn, False)

    @rule(with_turn=st.booleans(), stale=st.booleans())
    def ask(self, with_turn: bool, stale: bool) -> None:
        op, open_one = f"op-{next(self.numbers)}", self.head_of("op")
        head = int(self.head_of("rev") or "0") - stale
        answer = self.run(
            "validator/ready_v1", request=op, rev=str(head), cg=self.head_of("cg") or "0", o=op,
            base=str(head + with_turn), turn="turn" if with_turn else "", src=f"turn-requests/0@{next(self.numbers)}",
        )  # fmt: skip
        if answer[0] == "ok":
            assert not open_one, "one open operation a conversation"
            assert not stale
            assert self.place(op) == (State.PREPARED, 0, 0)
            self.operations.append(op)
            self.sources.clear()
        else:
            assert answer[0] in ("busy", "changed", "calls")
            assert self.stored == self.before

    @precondition(lambda self: self.operations)
    @rule(
        what=wrong("generation", "bytes"), off=OFF, again=AGAIN, owner=OWNERS, mode=st.sampled_from(["send", "resume"])
    )
    def accept(self, what: str, off: int, again: bool, owner: str, mode: str) -> None:
        op = self.operations[-1]
        was, gen, relay = self.place(op)
        evidence = self.of(op, "evidence")
        answer = self.run(
            "dispatcher/accept_v1", o=op, expected=self.current(what, off)["gen"], owner=owner, mode=mode,
            src=self.source("sequences", "accept", again), md="other" if what == "bytes" else "md",
        )  # fmt: skip
        if answer[0] != "ok":
            self.check(op, None)
            return
        self.check(op, Step.ACCEPT)
        _, now_gen, now_relay = self.place(op)
        if was in (State.PREPARED, State.TERMINATED):
            assert (now_gen, now_relay) == (gen + 1, 1)
            assert was is State.PREPARED or evidence, "no new generation without evidence"
        else:
            assert (now_gen, now_relay) == (gen, relay + 1)
            assert not evidence, "an attempt that is being resolved is not sent again"

    @precondition(lambda self: self.operations)
    @rule(what=wrong("generation", "relay", "owner"), off=OFF)
    def renew(self, what: str, off: int) -> None:
        attempt = self.current(what, off)
        owner = "d-9" if what == "owner" else self.of(attempt["o"], "owner")
        answer = self.run("dispatcher/renew_v1", owner=owner, **attempt)
        self.check(attempt["o"], Step.RENEW if answer[1] == "ok" else None)
        assert answer[1] == "lost" or not what

    @precondition(lambda self: self.operations)
    @rule(what=wrong("generation", "relay", "manifest", "handle"), off=OFF)
    def bind(self, what: str, off: int) -> None:
        attempt = self.current(what, off)
        was = self.place(attempt["o"])[0]
        handle = "h-9" if what == "handle" else "h-1"
        answer = self.run("reassembler/bind_v1", handle=handle, md=self.manifest(attempt["o"], what), **attempt)
        took = answer[0] == "ok" and Step.BIND in TRANSITIONS[was]
        assert not took or what in ("", "handle")
        self.check(attempt["o"], Step.BIND if took else None)

    @precondition(lambda self: self.operations)
    @rule(what=wrong("generation", "base", "cancels", "manifest"), off=OFF, again=AGAIN)
    def commit(self, what: str, off: int, again: bool) -> None:
        attempt = self.current(what, off)
        op = attempt["o"]
        base = int(self.of(op, "base")) + off * (what == "base")
        cancels = int(self.of(op, "cg")) + off * (what == "cancels")
        answer = self.run(
            "reassembler/commit_v1", base=str(base), cg=str(cancels), rev=str(base + 1), calls="",
            md=self.manifest(op, what), src=self.source("stream-events", "end", again), **attempt,
        )  # fmt: skip
        self.check(op, Step.COMMIT if answer[0] == "ok" else None)
        assert answer[0] != "ok" or not what

    @precondition(lambda self: self.operations)
    @rule(
        what=wrong("generation", "relay", "cancelled"), off=OFF, again=AGAIN, wanted=st.sampled_from(list(END_STEPS)),
        evidence=st.sampled_from(["", "rejected"]), expired=AGAIN,
    )  # fmt: skip
    def end(self, what: str, off: int, again: bool, wanted: str, evidence: str, expired: bool) -> None:
        attempt = self.current(what, off)
        op = attempt["o"]
        known = self.of(op, "evidence")
        cancelled = (self.place(op)[0] is State.CANCELLED) != (what == "cancelled")
        answer = self.run(
            "reassembler/end_v1", state=wanted, evidence=evidence, delay="5", expired="1" if expired else "",
            # Only what is taken for cancelled is asked to be aborted.
            cancelled="1" if cancelled or wanted == "ABORTED" else "",
            src=self.source("stream-events", "end", again), **attempt,
        )  # fmt: skip
        took = {"ok": END_STEPS.get(answer[-1]), "released": Step.FAIL}.get(answer[0])
        self.check(op, took)
        assert took is None or what in ("", "cancelled")
        if took in (Step.TERMINATE, Step.FAIL):
            assert evidence or known, "no attempt is over without evidence"

    @precondition(lambda self: self.operations)
    @rule(what=wrong("generation"), off=OFF)
    def evidence(self, what: str, off: int) -> None:
        attempt = self.current(what, off)
        was = self.place(attempt["o"])
        answer = self.run("recovery/evidence_v1", o=attempt["o"], gen=attempt["gen"])
        assert self.place(attempt["o"]) == was
        assert answer[0] == "late" or (was[0] in (State.UNKNOWN, State.CANCELLED) and not what)

    @precondition(lambda self: self.operations)
    @rule(again=AGAIN)
    def cancel(self, again: bool) -> None:
        name, newest = self.source("control", "cancel", again), self.operations[-1]
        open_one, cancels = self.head_of("op"), self.head_of("cg")
        assert self.run("ledger/cancel_v1", control=name, o="", cg="", src=name)[0] == "ok"
        if self.head_of("cg") == cancels:
            self.check(newest, None)
        elif open_one:
            self.check(open_one, Step.CANCEL)

    @precondition(lambda self: self.operations)
    @rule(which=st.sampled_from(["dispatch", "outcome", "sequence"]))
    def adopt_what_is_known(self, which: str) -> None:
        """A reconcile reads again what Redis has survived: it raises nothing."""
        op = self.operations[-1]
        state, gen, relay = self.place(op)
        decided = self.of(op, "decided")
        if which == "sequence":
            self.run("recovery/adopt_sequence_v1", o=op, base=self.of(op, "base"))
        elif which == "dispatch" and gen:
            self.run("recovery/adopt_dispatch_v1", o=op, gen=str(gen), relay=str(relay))
        elif decided:
            status = "completed" if state is State.COMMITTED else "failed"
            self.run("recovery/adopt_outcome_v1", o=op, gen=decided, status=status)
        else:
            return
        self.check(op, None)

    # --- always ------------------------------------------------------------------------------------------------------

    @invariant()
    def generations_and_revisions_only_rise(self) -> None:
        head, cancels = int(self.head_of("rev") or "0"), int(self.head_of("cg") or "0")
        assert head in (self.head, self.head + 1)
        assert cancels in (self.cancels, self.cancels + 1)
        self.head, self.cancels = head, cancels
        for op in self.operations:
            was, now = self.seen.get(op), self.place(op)
            if was is not None:
                assert was[1] <= now[1] <= was[1] + 1
                assert was[0] not in DECIDED_FOR_GOOD or now == was, "what is decided stays"
            self.seen[op] = now

    @invariant()
    def at_most_one_attempt_is_live(self) -> None:
        busy = [op for op in self.operations if self.place(op)[0] not in DECIDED_FOR_GOOD]
        assert busy in ([], [self.head_of("op")])
        committed = sum(self.place(op)[0] is State.COMMITTED for op in self.operations)
        assert committed <= int(self.head_of("rev") or "0"), "a revision is committed once"


def test_no_arrow_outside_the_table(quick_benches: Callable[[], QuickBench]) -> None:
    taken: set[tuple[State, Step]] = set()
    here = type("Here", (Lifecycle,), {"make": staticmethod(quick_benches), "taken": taken})
    run_state_machine_as_test(
        here,
        settings=settings(
            max_examples=150, stateful_step_count=40, deadline=None, derandomize=True,
            # Not shrunk: that takes minutes. What was found is printed; by hand it can be.
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        ),
    )  # fmt: skip
    assert {step for _, step in taken} == set(Step), "every script was taken at least once"
