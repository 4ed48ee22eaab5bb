"""Planted breaches: each must be refuted under its own id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from turngate.domain.audit import Status
from turngate.schemas.blocks import BlockContent, content_digest
from turngate.schemas.digests import EMPTY_HISTORY, history_digest, operation_id, sha256_hex, text_digest
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.sequence import MessageSequence, SequenceCommand, sequence_digest
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EndFrame, EventsFrame
from turngate.schemas.tools import ToolOrder, ToolResult
from turngate.schemas.turn import Turn, turn_digest
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


def rewrite(story, revision: int, **fields: object) -> Turn:
    """Change a turn and make its receipt agree with itself again."""
    turn = story.change(story.find(Turn, revision=revision), **fields)
    if turn.receipt is not None:
        receipt = turn.receipt.model_copy(update={"turn_digest": turn_digest(turn)})
        turn = story.change(story.find(Turn, revision=revision), receipt=receipt)
    return turn


def resequence(story, place: int, **fields: object) -> None:
    """Change a sequence and everything that names its digest, so that only the change itself is wrong."""
    _, _, command = story.rows[place]
    bare = MessageSequence.model_validate(command.sequence.model_dump(by_alias=False, exclude_none=True) | fields)
    digest = sequence_digest(bare)
    sequence = bare.model_copy(update={"sequence_digest": digest})
    spec = command.spec.model_copy(update={"sequence_digest": digest})
    story.change(place, sequence=sequence, spec=spec)
    story.change(story.find(Verdict, operation_id=spec.operation_id), sequence_digest=digest)


# -- I1 ------------------------------------------------------------------------------------------------------------


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
    resequence(story, place, blocks=blocks, history_digest=history_digest(EMPTY_HISTORY, (b.digest for b in blocks)))


@breach("I1")
def sequence_digest_that_does_not_recompute(story):
    place = story.find(SequenceCommand)
    _, _, command = story.rows[place]
    story.change(place, sequence=command.sequence.model_copy(update={"max_output_tokens": 101}))


# -- I2 ------------------------------------------------------------------------------------------------------------


@breach("I2")
def order_of_an_uncommitted_turn(story):
    story.change(story.find(ToolOrder, call_id="c1"), revision=7, call_key="acme/chat-1/7/c1")


@breach("I2")
def order_of_a_call_the_turn_lacks(story):
    story.change(story.find(ToolOrder, call_id="c1"), call_id="c9", call_key="acme/chat-1/2/c9")


@breach("I2")
def order_with_other_arguments(story):
    raw = '{"q": "ONE"}'
    story.change(story.find(ToolOrder, call_id="c1"), arguments_raw=raw, arguments_digest=text_digest(raw))


@breach("I2")
def order_with_reserialised_arguments(story):
    story.change(story.find(ToolOrder, call_id="c1"), arguments_raw='{"q":"one"}')


@breach("I2")
def order_of_another_generation(story):
    story.change(story.find(ToolOrder, call_id="c1"), generation=1)


@breach("I2")
def order_under_another_schema(story):
    story.change(story.find(ToolOrder, call_id="c1"), schema_digest=OTHER)


# -- I3 ------------------------------------------------------------------------------------------------------------


@breach("I3")
def two_turns_of_one_revision(story):
    story.repeat(story.find(Turn, revision=4), usage_raw='{"n":1}')


@breach("I3")
def lost_revision(story):
    story.drop(story.find(Turn, revision=2))


@breach("I3")
def operation_committed_twice(story):
    story.repeat(story.find(Turn, revision=4), revision=5)


# -- I4 ------------------------------------------------------------------------------------------------------------


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


# -- I5 ------------------------------------------------------------------------------------------------------------


def swap_results(story, order: tuple[int, ...]) -> None:
    turn = story.rows[story.find(Turn, revision=3)][2]
    blocks = tuple(turn.blocks[i].model_copy(update={"order": at}) for at, i in enumerate(order))
    rewrite(story, 3, blocks=blocks)


@breach("I5")
def results_out_of_call_order(story):
    swap_results(story, (1, 0))


@breach("I5")
def missing_result(story):
    swap_results(story, (0,))


@breach("I5")
def duplicated_result(story):
    swap_results(story, (0, 1, 1))


@breach("I5")
def result_nobody_sent(story):
    story.drop(story.find(ToolResult, result_id="r-c1"))


@breach("I5")
def result_with_other_content(story):
    story.change(story.find(ToolResult, result_id="r-c1"), content="forged")


@breach("I5")
def two_outputs_of_one_call(story):
    story.repeat(story.find(SessionEvent, type="tool_call_output", call_id="c1"), event_id="again")


@breach("I5")
def no_output_of_a_call(story):
    story.drop(story.find(SessionEvent, type="tool_call_output", call_id="c1"))


@breach("I5")
def ordered_twice(story):
    story.repeat(story.find(ToolOrder, call_id="c1"))


@breach("I5")
def repeated_at_most_once_tool(story):
    story.repeat(story.find(ToolOrder, call_id="c1"), attempt=2)


@breach("I5")
def ordered_although_denied(story):
    story.session("approval_decision", call_key="acme/chat-1/2/c1", call_id="c1", decision="denied", revision=2)


@breach("I5")
def calls_never_settled(story):
    del story.rows[story.find(Turn, revision=3) :]


# -- I6 ------------------------------------------------------------------------------------------------------------


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


# -- I7 ------------------------------------------------------------------------------------------------------------


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
    resequence(story, place, blocks=tuple(blocks), history_digest=chain)


@breach("I7")
def retracted_text_committed(story):
    content = BlockContent(text="Let me th")
    turn = story.rows[story.find(Turn, revision=2)][2]
    first = turn.blocks[0].model_copy(update={"content": content, "digest": content_digest("text", content)})
    rewrite(story, 2, blocks=(first, *turn.blocks[1:]))


# -- I8 ------------------------------------------------------------------------------------------------------------


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


# -- I9 ------------------------------------------------------------------------------------------------------------


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


# -- I10 -----------------------------------------------------------------------------------------------------------


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


# -- receipts ------------------------------------------------------------------------------------------------------


@breach("receipts")
def turn_digest_that_does_not_recompute(story):
    story.change(story.find(Turn, revision=4), usage_raw='{"tokens":1}')


@breach("receipts")
def block_digest_that_does_not_recompute(story):
    turn = story.rows[story.find(Turn, revision=1)][2]
    first = turn.blocks[0].model_copy(update={"content": BlockContent(text="Something else")})
    rewrite(story, 1, blocks=(first,))


@breach("receipts")
def broken_chain(story):
    rewrite(story, 3, history_digest=OTHER)


@breach("receipts")
def arguments_changed_in_the_turn(story):
    turn = story.rows[story.find(Turn, revision=2)][2]
    content = BlockContent(tool="search", arguments_raw='{"q": "ONE"}')
    call = turn.blocks[1].model_copy(update={"content": content, "digest": content_digest("tool_call", content)})
    rewrite(story, 2, blocks=(turn.blocks[0], call, turn.blocks[2]))


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
def test_a_planted_breach_is_refuted(story, invariant, plant):
    plant(story)
    report = story.audit()
    result = report.of(invariant)
    assert result.status is Status.REFUTED, [(r.invariant, [b.why for b in r.breaches]) for r in report.results]
    assert report.exit_code == 1
    assert invariant in report.refuted
    first = result.breaches[0]
    assert first.why
    assert first.timeline
    assert list(first.timeline) == sorted(first.timeline, key=lambda row: row.time_ms)
    content = ("Let me th", "I will look", "result one", "result two", "Find both", "Both found", '"q"')
    assert not any(word in row.gist for row in first.timeline for word in content)


def test_every_invariant_has_a_planted_breach():
    assert {invariant for invariant, _ in BREACHES} == {*(f"I{n}" for n in range(1, 11)), "receipts"}
