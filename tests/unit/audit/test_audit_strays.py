"""What somebody else wrote into a topic of the fleet's own: no part of its history where a dead letter shows it."""

from __future__ import annotations

import pytest

from turngate.domain.audit import AuditLog, AuditReport, audit, entry_of
from turngate.schemas.codec import encode
from turngate.schemas.quarantine import DeadLetter, Origin, payload_of
from turngate.schemas.turn import Turn

PARTITION, OFFSET = 1, 900


def audited(story, topic: str, value: bytes, reason: str | None, *, moved: bool = False) -> AuditReport:
    """The valid story with one more record, dead-lettered for a reason or not; `moved`: there once more, elsewhere."""
    entries = [*story.entries(), entry_of(topic, PARTITION, OFFSET, 9_000_000, "acme/chat-9", value)]
    if moved:
        entries.append(entry_of(topic, PARTITION + 1, OFFSET, 9_000_000, "acme/chat-9", value))
    if reason is not None:
        letter = DeadLetter(
            reason=reason, detail="", role="ledger", payload=payload_of(value),
            origin=Origin(topic=topic, partition=PARTITION, offset=OFFSET),
        )  # fmt: skip
        entries.append(entry_of("dead-letters", 0, 0, 9_000_001, "acme/chat-9", encode(letter)))
    return audit(AuditLog.of(entries, (), story.starts), story.lines, expect_settled=True)


def a_turn(story) -> bytes:
    """Another turn of revision 4 of the story's conversation."""
    turn = story.rows[story.find(Turn, revision=4)][2]
    return encode(turn.model_copy(update={"usage_raw": '{"n":1}'}))


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("reason", ["key_mismatch", "unknown_tenant", "misrouted"])
def test_a_stray_turn_with_its_dead_letter_is_no_part_of_history(story, reason: str, moved: bool) -> None:
    assert audited(story, "turns", a_turn(story), reason, moved=moved).refuted == ()


@pytest.mark.parametrize("reason", [None, "handler_error", "invalid_record"])
def test_a_turn_that_is_not_shown_to_be_a_stray_counts(story, reason: str | None) -> None:
    assert "I3" in audited(story, "turns", a_turn(story), reason).refuted


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("topic", ["turns", "session-events", "sequences", "control", "turn-requests"])
def test_what_is_no_record_is_fine_with_its_dead_letter(story, topic: str, moved: bool) -> None:
    assert audited(story, topic, b"no record", "malformed_json", moved=moved).refuted == ()


def test_what_is_no_record_is_a_breach_in_a_topic_of_our_own(story) -> None:
    assert audited(story, "turns", b"no record", None).refuted == ("I6",)


def test_what_is_no_record_is_undecided_in_a_topic_of_others(story) -> None:
    report = audited(story, "control", b"no record", None)
    assert report.refuted == ()
    (accounts,) = [result for result in report.results if result.invariant == "I6"]
    assert accounts.unknown_count == 1
