"""Planted breaches of what may be sent: no bytes without a valid sequence, one live attempt, the bytes named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from turngate.schemas.digests import EMPTY_HISTORY, history_digest, operation_id, sha256_hex
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EndFrame
from turngate.schemas.verdict import Verdict

OTHER = sha256_hex(b"other")
FIRST = operation_id("acme", "chat-1", 1, "req-1")
LAST = operation_id("acme", "chat-1", 3, "req-early")

BREACHES: list[tuple[str, Callable]] = []


def breach(invariant: str):
    def keep(plant: Callable) -> Callable:
        BREACHES.append((invariant, plant))
        return plant

    return keep


# -- I1 ----------------------------------------------------------------------------------------------------------------


@breach("I1")
def request_without_dispatch(story):
    story.lines.append(replace(story.lines[0], number=9, operation="op-" + "0" * 40))


@breach("I1")
def request_that_nothing_explains(story):
    stranger = replace(
        story.lines[0], number=9, operation=None, generation=None, idempotency_key=None, request_digest=OTHER
    )
    story.lines.append(stranger)


@breach("I1")
def dispatch_without_a_verdict(story):
    story.drop(story.find(Verdict, operation_id=FIRST))


@breach("I1")
def dispatch_without_a_sequence(story):
    story.drop(next(i for i, (_, _, r) in enumerate(story.rows) if isinstance(r, SequenceCommand)))


@breach("I1")
def rejected_but_sent(story):
    story.change(story.find(Verdict, operation_id=LAST), verdict="REJECTED")


@breach("I1")
def manifest_of_another_sequence(story):
    story.change(story.find(DispatchManifest, operation_id=FIRST), sequence_digest=OTHER)


@breach("I1")
def sequence_with_a_call_without_result(story):
    place = [i for i, (_, _, r) in enumerate(story.rows) if isinstance(r, SequenceCommand)][1]
    blocks = tuple(b for b in story.rows[place][2].sequence.blocks if b.id != "t-2-1")
    story.resequence(place, blocks=blocks, history_digest=history_digest(EMPTY_HISTORY, (b.digest for b in blocks)))


@breach("I1")
def sequence_digest_that_does_not_recompute(story):
    place = story.find(SequenceCommand)
    _, _, command = story.rows[place]
    story.change(place, sequence=command.sequence.model_copy(update={"max_output_tokens": 101}))


# -- I4 ----------------------------------------------------------------------------------------------------------------


@breach("I4")
def bytes_sent_twice(story):
    story.lines.append(replace(story.lines[1], number=9, time_ms=story.now))


@breach("I4")
def next_generation_without_an_end(story):
    story.drop(story.find(EndFrame, operation_id=FIRST, generation=1))
    story.drop(story.find(SessionEvent, type="request_end", generation=1, status="failed"))


@breach("I4")
def next_generation_before_the_end(story):
    end = story.find(EndFrame, operation_id=FIRST, generation=1)
    ended = story.find(SessionEvent, type="request_end", generation=1, status="failed")
    for place in (end, ended):
        topic, time_ms, record = story.rows[place]
        story.rows[place] = (topic, time_ms + 10_000, record)


@breach("I4")
def next_generation_after_the_commit(story):
    story.send(FIRST, 3, arrives=False)


@breach("I4")
def second_operation_beside_an_open_one(story):
    other = story.ask("req-beside", "And another")
    story.send(other)
    third = story.ask("req-third", "And a third")
    story.send(third)


@breach("I4")
def cancel_is_no_evidence(story):
    for place in (
        story.find(EndFrame, operation_id=FIRST, generation=1),
        story.find(SessionEvent, type="request_end", generation=1, status="failed"),
    ):
        record = story.rows[place][2]
        if isinstance(record, EndFrame):
            story.change(place, cause="cancelled", control_id="k-1", evidence="operator")
            bare = story.rows[place][2].model_copy(update={"evidence": None, "status": None, "error_class": None})
            story.rows[place] = (*story.rows[place][:2], bare)
        else:
            story.change(place, status="aborted")


@breach("I4")
def two_different_dispatches_of_one_relay(story):
    story.repeat(story.find(Dispatch, operation_id=LAST), owner="d-1")


@breach("I4")
def older_bytes_after_newer(story):
    story.lines[0], story.lines[1] = story.lines[1], story.lines[0]


# -- I9 ----------------------------------------------------------------------------------------------------------------


@breach("I9")
def other_bytes_received(story):
    story.lines[2] = replace(story.lines[2], request_digest=OTHER)


@breach("I9")
def other_length_received(story):
    story.lines[2] = replace(story.lines[2], length=7)


@breach("I9")
def retry_with_other_bytes(story):
    story.lines[1] = replace(story.lines[1], body_sha256=OTHER)


@breach("I9")
def retry_under_the_same_key(story):
    story.lines[1] = replace(story.lines[1], idempotency_key=story.lines[0].idempotency_key)


@breach("I9")
def dispatch_of_other_bytes(story):
    story.change(story.find(Dispatch, operation_id=LAST), request_digest=OTHER)


@breach("I9")
def manifest_that_does_not_recompute(story):
    story.change(story.find(DispatchManifest, operation_id=LAST), token_count=2)


@pytest.mark.parametrize(("invariant", "plant"), BREACHES, ids=[f"{i}-{p.__name__}" for i, p in BREACHES])
def test_a_planted_breach_of_sending_is_refuted(story, assert_refuted, invariant, plant):
    plant(story)
    assert_refuted(story, invariant)


def test_every_invariant_of_sending_has_a_planted_breach():
    assert {invariant for invariant, _ in BREACHES} == {"I1", "I4", "I9"}
