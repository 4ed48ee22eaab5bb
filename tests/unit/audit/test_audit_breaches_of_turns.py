"""Planted breaches around turns: one a revision, none lost, previews settled, nothing late, receipts that agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from turngate.schemas.blocks import BlockContent, content_digest
from turngate.schemas.digests import EMPTY_HISTORY, history_digest, operation_id, sha256_hex
from turngate.schemas.sequence import SequenceCommand
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EventsFrame
from turngate.schemas.tools import ToolResult
from turngate.schemas.turn import Turn
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


# -- I3 ----------------------------------------------------------------------------------------------------------------


@breach("I3")
def two_turns_of_one_revision(story):
    story.repeat(story.find(Turn, revision=4), usage_raw='{"n":1}')


@breach("I3")
def lost_revision(story):
    story.drop(story.find(Turn, revision=2))


@breach("I3")
def operation_committed_twice(story):
    story.repeat(story.find(Turn, revision=4), revision=5)


# -- I6 ----------------------------------------------------------------------------------------------------------------


@breach("I6")
def request_without_an_answer(story):
    story.drop(story.find(Verdict, request_id="req-bad"))


@breach("I6")
def lost_result(story):
    from turngate.schemas.quarantine import Quarantined

    story.drop(story.find(Quarantined, call_key="acme/chat-1/2/c2"))


@breach("I6")
def operation_without_an_outcome(story):
    story.ask("req-lost", "Anybody there?")


@breach("I6")
def retry_that_never_comes(story):
    operation = story.ask("req-lost", "Anybody there?")
    story.send(operation)
    story.fail(operation, 1, previewed=False)


@breach("I6")
def waiting_for_nothing(story):
    story.refuse("req-forgotten", "WAITING", reason="operation_open")


@breach("I6")
def ready_but_input_lost(story):
    story.drop(story.find(Turn, revision=1))


@breach("I6")
def rejected_without_a_finding(story):
    story.change(story.find(Verdict, request_id="req-bad"), findings=())


@breach("I6")
def held_but_not_kept(story):
    place = story.find(Verdict, request_id="req-paused")
    topic, time_ms, verdict = story.rows[place]
    story.rows[place] = (topic, time_ms, verdict.model_copy(update={"request": None}))


# -- I7 ----------------------------------------------------------------------------------------------------------------


@breach("I7")
def retracted_and_committed(story):
    story.session("preview_retracted", operation_id=LAST, generation=1, reason="late")


@breach("I7")
def preview_never_retracted(story):
    story.drop(story.find(SessionEvent, type="preview_retracted", generation=1))


@breach("I7")
def preview_without_an_end(story):
    operation = story.ask("req-open", "Go on")
    story.send(operation)
    story.preview(operation, 1, 0, "And th")


@breach("I7")
def completed_without_a_turn(story):
    story.drop(story.find(Turn, revision=4))


@breach("I7")
def turn_without_a_completed_request(story):
    story.drop(story.find(SessionEvent, type="request_end", operation_id=LAST))


@breach("I7")
def two_outcomes(story):
    story.repeat(story.find(SessionEvent, type="request_end", operation_id=LAST), event_id="again")


@breach("I7")
def preview_after_the_outcome(story):
    story.preview(LAST, 1, 0, "Both found. And more")


@breach("I7")
def retracted_text_sent_as_history(story):
    place = [i for i, (_, _, r) in enumerate(story.rows) if isinstance(r, SequenceCommand)][1]
    blocks = list(story.rows[place][2].sequence.blocks)
    content = BlockContent(text="Let me th")
    blocks[1] = blocks[1].model_copy(update={"content": content, "digest": content_digest("text", content)})
    chain = history_digest(EMPTY_HISTORY, (b.digest for b in blocks))
    story.resequence(place, blocks=tuple(blocks), history_digest=chain)


@breach("I7")
def retracted_text_committed(story):
    content = BlockContent(text="Let me th")
    turn = story.rows[story.find(Turn, revision=2)][2]
    first = turn.blocks[0].model_copy(update={"content": content, "digest": content_digest("text", content)})
    story.rewrite(2, blocks=(first, *turn.blocks[1:]))


# -- I8 ----------------------------------------------------------------------------------------------------------------


@breach("I8")
def preview_of_other_text(story):
    story.change(story.find(SessionEvent, type="partial_text", operation_id=LAST, text_offset=4), text=" FOUND.")


@breach("I8")
def preview_cut_short(story):
    story.drop(story.find(SessionEvent, type="partial_text", operation_id=LAST, text_offset=4))


@breach("I8")
def preview_with_a_hole(story):
    story.drop(story.find(SessionEvent, type="partial_text", operation_id=LAST, text_offset=0))


@breach("I8")
def offsets_in_another_unit(story):
    # The 15th code point stands behind a dash and an emoji: offsets in UTF-8 bytes or UTF-16 units differ from here.
    place = story.find(SessionEvent, type="partial_text", operation_id=FIRST, generation=2, text_offset=16)
    story.change(place, text_offset=17)


@breach("I8")
def forged_before_an_abort(story):
    # What an aborted transaction showed stays with the reader: repeating it must say the same.
    at, event = story.ghosts[-1]
    story.ghosts[-1] = (at, event.model_copy(update={"text": "I shall l"}))


# -- I10 ---------------------------------------------------------------------------------------------------------------


@breach("I10")
def committed_from_quarantine(story):
    frame = story.rows[story.find(EventsFrame, operation_id=LAST)][2]
    story.quarantine("stream-events", frame, operation_id=LAST, generation=1, relay=1)


@breach("I10")
def committed_from_a_relay_never_dispatched(story):
    turn = story.rows[story.find(Turn, revision=4)][2]
    story.change(story.find(Turn, revision=4), receipt=turn.receipt.model_copy(update={"relay": 2}))


@breach("I10")
def shown_but_never_dispatched(story):
    story.session("request_begin", operation_id=LAST, generation=2, ordinal=0)


@breach("I10")
def settled_from_quarantine(story):
    result = story.rows[story.find(ToolResult, result_id="r-c1")][2]
    story.quarantine("tool-results", result, call_key=result.call_key)


@breach("I10")
def rebound_handle(story):
    first, last = (story.rows[story.find(Turn, revision=revision)][2] for revision in (2, 4))
    story.change(story.find(Turn, revision=4), receipt=last.receipt.model_copy(update={"handle": first.receipt.handle}))


# -- receipts ----------------------------------------------------------------------------------------------------------


@breach("receipts")
def turn_digest_that_does_not_recompute(story):
    story.change(story.find(Turn, revision=4), usage_raw='{"tokens":1}')


@breach("receipts")
def block_digest_that_does_not_recompute(story):
    turn = story.rows[story.find(Turn, revision=1)][2]
    first = turn.blocks[0].model_copy(update={"content": BlockContent(text="Something else")})
    story.rewrite(1, blocks=(first,))


@breach("receipts")
def broken_chain(story):
    story.rewrite(3, history_digest=OTHER)


@breach("receipts")
def arguments_changed_in_the_turn(story):
    turn = story.rows[story.find(Turn, revision=2)][2]
    content = BlockContent(tool="search", arguments_raw='{"q": "ONE"}')
    call = turn.blocks[1].model_copy(update={"content": content, "digest": content_digest("tool_call", content)})
    story.rewrite(2, blocks=(turn.blocks[0], call, turn.blocks[2]))


@breach("receipts")
def receipt_of_another_manifest(story):
    turn = story.rows[story.find(Turn, revision=4)][2]
    story.change(story.find(Turn, revision=4), receipt=turn.receipt.model_copy(update={"manifest_digest": OTHER}))


@breach("receipts")
def receipt_that_counts_wrong(story):
    turn = story.rows[story.find(Turn, revision=4)][2]
    story.change(story.find(Turn, revision=4), receipt=turn.receipt.model_copy(update={"events": 5}))


@breach("receipts")
def receipt_without_its_failed_generation(story):
    turn = story.rows[story.find(Turn, revision=2)][2]
    notes = tuple(note.model_copy(update={"status": "timeout"}) for note in turn.receipt.generations[:1])
    receipt = turn.receipt.model_copy(update={"generations": (*notes, turn.receipt.generations[1])})
    story.change(story.find(Turn, revision=2), receipt=receipt)


@breach("receipts")
def no_receipt(story):
    place = story.find(Turn, revision=4)
    topic, time_ms, turn = story.rows[place]
    story.rows[place] = (topic, time_ms, turn.model_copy(update={"receipt": None}))


@pytest.mark.parametrize(("invariant", "plant"), BREACHES, ids=[f"{i}-{p.__name__}" for i, p in BREACHES])
def test_a_planted_breach_of_turns_is_refuted(story, assert_refuted, invariant, plant):
    plant(story)
    assert_refuted(story, invariant)


def test_every_invariant_of_turns_has_a_planted_breach():
    assert {invariant for invariant, _ in BREACHES} == {"I3", "I6", "I7", "I8", "I10", "receipts"}
