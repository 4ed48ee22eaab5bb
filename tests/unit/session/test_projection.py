"""What a reader of uncommitted session events is shown, whatever transactions were aborted and redone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.domain.session import Projection, StreamEvent, read_event
from turngate.domain.session.projection import EVENT_IDS_MAX, OPERATIONS_MAX
from turngate.schemas.errors import InvalidRecord, UnknownSchema


def event(kind: str, **fields: Any) -> StreamEvent:
    return StreamEvent("acme", "c1", kind, fields.pop("event_id", kind), **({"operation": "op"} | fields))


def text(step: str, offset: int | None = None, length: int = 0, **fields: Any) -> StreamEvent:
    return event(
        "partial_text", relay=fields.pop("relay", 1), block=0, step=step, offset=offset, length=length, **fields
    )


def end(**fields: Any) -> StreamEvent:
    return event("request_end", **({"ordinal": 3} | fields))


def admitted(projection: Projection, *events: StreamEvent) -> list[bool]:
    return [projection.admit(each) for each in events]


BEGIN = event("request_begin", ordinal=0)
WHOLE = event("text", ordinal=1, block=0)
USAGE = event("token_usage", ordinal=2)


def cuts_of(length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, length - 1), unique=True, max_size=6).map(lambda cuts: [0, *sorted(cuts), length])


def deltas(cuts: list[int]) -> list[StreamEvent]:
    return [text("delta", start, stop - start) for start, stop in pairwise(cuts)]


@given(st.lists(cuts_of(20), min_size=1, max_size=4), st.data())
def test_each_redo_of_an_aborted_transaction_only_adds(runs: list[list[int]], data: st.DataObject) -> None:
    """Runs cut short anywhere, then one whole run, each with its own cuts: every code point once, every event once."""
    log: list[StreamEvent] = []
    for number, cuts in enumerate(runs):
        run = [BEGIN, text("start"), *deltas(cuts), text("stop"), WHOLE, USAGE, end(), event("turn_committed")]
        cut_short = number < len(runs) - 1
        log += run[: data.draw(st.integers(0, len(run)))] if cut_short else run
    projection = Projection()
    shown: list[StreamEvent] = []
    for each in log:
        shown += [each] if projection.admit(each) else []
        projection = Projection.load(projection.dump())
    reach = 0
    for each in shown:
        if each.step == "delta":
            assert each.offset is not None
            assert each.offset <= reach < each.offset + each.length, "a delta leaves no hole and brings something"
            reach = each.offset + each.length
    assert reach in (0, 20) if WHOLE in shown else reach == 20
    others = [each.type + each.step for each in shown if each.step != "delta"]
    assert len(set(others)) == len(others)
    assert [name for name in others if not name.startswith("partial")] == [
        "request_begin", "text", "token_usage", "request_end", "turn_committed",
    ]  # fmt: skip


def test_what_lies_behind_is_dropped_and_what_reaches_beyond_is_shown() -> None:
    projection = Projection()
    assert admitted(projection, text("start"), text("delta", 0, 5), text("delta", 3, 2)) == [True, True, False]
    assert admitted(projection, text("delta", 3, 4), text("delta", 0, 7), text("start")) == [True, False, False]
    assert admitted(projection, text("stop"), text("delta", 7, 9), text("stop")) == [True, False, False]


def test_a_tool_calls_byte_count_only_grows() -> None:
    def call(step: str, count: int) -> StreamEvent:
        return event("partial_tool_call", relay=1, block=2, step=step, offset=count)

    projection = Projection()
    shown = admitted(
        projection, call("start", 0), call("delta", 5), call("delta", 5), call("delta", 9), call("stop", 0)
    )
    assert shown == [True, True, False, True, True]


def test_nothing_follows_the_outcome_but_the_turn() -> None:
    projection = Projection()
    assert admitted(projection, BEGIN, WHOLE, end()) == [True, True, True]
    late = (text("delta", 0, 99), event("thinking", ordinal=9), event("preview_retracted"), end(ordinal=10))
    assert admitted(projection, *late) == [False] * 4
    assert admitted(projection, event("turn_committed"), event("turn_committed")) == [True, False]


def test_after_a_retraction_only_the_end_is_shown() -> None:
    projection = Projection()
    retracted = event("preview_retracted", event_id="r")
    assert admitted(projection, BEGIN, text("delta", 0, 4), retracted) == [True] * 3
    assert admitted(projection, text("delta", 4, 4), WHOLE, retracted) == [False] * 3
    assert admitted(projection, end(ordinal=1), event("abort")) == [True, True]


def test_a_retracted_relay_makes_the_next_begin_from_nothing() -> None:
    projection = Projection()
    assert admitted(projection, text("start"), text("delta", 0, 9)) == [True, True]
    assert admitted(projection, event("preview_retracted", relay=1), text("delta", 9, 3)) == [True, False]
    assert admitted(projection, text("start", relay=2), text("delta", 0, 4, relay=2)) == [True, True]
    assert not projection.admit(event("preview_retracted", relay=1))


def test_a_higher_generation_replaces_a_lower_one() -> None:
    projection = Projection()
    assert admitted(projection, BEGIN, end()) == [True, True]
    again = event("request_begin", ordinal=0, generation=1)
    assert admitted(projection, again, again, end()) == [True, False, False]


def test_events_of_no_attempt_are_shown_once_each() -> None:
    projection = Projection()
    result = event("tool_call_output", event_id="a", operation="")
    assert admitted(projection, result, result, event("tool_call_output", event_id="b", operation="")) == [
        True, False, True,
    ]  # fmt: skip
    assert not projection.admit(event("prompt", event_id="p", trace_only=True))


def test_the_state_is_bounded() -> None:
    projection = Projection()
    for number in range(EVENT_IDS_MAX * 2):
        assert projection.admit(event("abort", event_id=f"{number:032}"))
        assert projection.admit(event("request_begin", ordinal=0, operation=f"op-{number}"))
    operations, ids = orjson.loads(projection.dump())
    assert (len(operations), len(ids)) == (OPERATIONS_MAX, EVENT_IDS_MAX)


PREVIEW = {
    "schema": "SessionEvent.v1", "tenant": "acme", "conversation": "c1", "type": "partial_text", "eventId": "e",
    "operationId": "op", "generation": 1, "relay": 2, "blockIndex": 3, "step": "delta", "text": "hé😀", "textOffset": 4,
}  # fmt: skip


def test_a_preview_is_read_in_code_points() -> None:
    found = read_event(orjson.dumps(PREVIEW))
    assert (found.operation, found.generation, found.relay, found.block) == ("op", 1, 2, 3)
    assert (found.offset, found.length, found.is_preview) == (4, 3, True)


@pytest.mark.parametrize("name", ["tenant", "operationId", "generation", "relay", "blockIndex", "step", "text"])
@pytest.mark.parametrize("value", [None, -1, 1.5, True, [], 2**60])
def test_a_preview_with_a_field_of_another_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidRecord):
        read_event(orjson.dumps(PREVIEW | {name: value}))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "null_value"),
        (b"{", "malformed_json"),
        (b"[]", "malformed_json"),
        (orjson.dumps(PREVIEW, option=orjson.OPT_INDENT_2), "not_one_line"),
        (orjson.dumps({"schema": "SessionEvent.v1", "type": "text", "tenant": "t"}), "invalid_record"),
        (orjson.dumps(PREVIEW | {"schema": "SessionEvent.v2"}), "unknown_schema"),
    ],
)
def test_what_is_no_session_event_is_refused(value: bytes | None, code: str) -> None:
    with pytest.raises((InvalidRecord, UnknownSchema)) as caught:
        read_event(value)
    assert caught.value.code == code
