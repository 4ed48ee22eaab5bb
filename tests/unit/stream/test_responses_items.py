"""The Responses normaliser: items and their parts, from their beginning to their end."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.openai_responses import normaliser_tables as tables
from turngate.testing.responses_events import (
    A,
    Json,
    call,
    codes,
    created,
    done,
    end,
    judge,
    message,
    numbered,
    ran,
    reasoning,
    refusal,
    stream,
    whole,
)


def test_the_call_id_is_not_the_item_id_and_the_slot_is_the_output_index() -> None:
    outcome = judge(stream(call(4, "c9")))
    assert [(c.call_id, c.slot) for c in outcome.calls] == [("c9", "0/4")]
    bare = [{**event} for event in stream(call())]
    for event in bare:
        if "item" in event:
            event["item"] = {k: v for k, v in event["item"].items() if k != "call_id"}  # type: ignore[attr-defined]
    assert codes(judge(bare)) == ["missing_identity"]


def test_interleaved_items_stay_apart_and_in_the_order_of_their_indexes() -> None:
    one, two, text = call(0, "c1", '{"x":1}'), call(1, "c2", '{"y":2}', "write"), message(2)
    mixed = [one[0], two[0], text[0], two[1], one[1], text[1], text[2], one[2], two[2], *two[3:], *text[3:], *one[3:]]
    outcome = judge(stream(mixed))
    assert ran(outcome) == [("c1", "look", '{"x":1}'), ("c2", "write", '{"y":2}')]
    assert [block.kind for block in outcome.blocks] == ["tool_call", "tool_call", "text"]
    assert outcome.text == "Hello."


def test_item_ids_that_change_with_every_event_do_not_matter() -> None:
    events = stream(call(0, "c1"), call(1, "c2", "{}", "write"))
    for number, event in enumerate(events):
        if "item_id" in event:
            event["item_id"] = f"r{number}"
        if "item" in event:
            event["item"] = {**event["item"], "id": f"r{number}"}  # type: ignore[dict-item]
    assert ran(judge(events)) == [("c1", "look", A), ("c2", "write", "{}")]
    assert judge(events).findings == ()


def test_an_output_index_and_a_known_item_id_that_name_two_items_block() -> None:
    for at in (2, 4, 5):
        events = stream(call(0, "c1"), call(1, "c2"))
        if "item" in events[at]:
            events[at]["item"] = {**events[at]["item"], "id": "fc_c2"}  # type: ignore[dict-item]
        else:
            events[at]["item_id"] = "fc_c2"
        first, rest = events[:1], events[1:]
        order = numbered([*first, rest[5], *rest[:5], *rest[6:]])
        assert "identity_collision" in codes(judge(order)), at


def test_an_id_of_two_items_tells_nothing() -> None:
    one, two = call(0, "c1"), call(1, "c2")
    events = json.loads(json.dumps(stream(one[:1], two[:1], one[1:], two[1:])).replace("fc_c2", "fc_c1"))
    assert ran(judge(events)) == [("c1", "look", A), ("c2", "look", A)]


def test_an_item_id_stands_for_an_output_index_that_is_absent() -> None:
    events = stream(call(0, "c1"), call(1, "c2"))
    for event in events:
        if "item_id" in event:
            del event["output_index"]
    outcome = judge(events)
    assert ran(outcome) == [("c1", "look", A), ("c2", "look", A)]
    assert codes(outcome, "tolerated") == ["missing_slot"]


@pytest.mark.parametrize("index", [None, -1, "0", 0.0, True, tables.OUTPUT_INDEX_MAX + 1])
def test_without_a_usable_output_index_nothing_has_a_slot(index: object) -> None:
    events = stream(call())
    for at in range(1, 6):
        bent = [*events[:at], {**events[at], "output_index": index}, *events[at + 1 :]]
        outcome = judge(bent)
        if index is None and at != 1:
            assert outcome.verdict == "commit"
        else:
            assert "missing_slot" in codes(outcome), at


@pytest.mark.parametrize("ident", ["c1", "c2"])
def test_a_second_item_in_a_place_that_is_taken_is_a_collision(ident: str) -> None:
    events = call()
    for at in (1, 3, 5):
        outcome = judge(stream(events[:at], call(ident=ident)[:1], events[at:]))
        assert "identity_collision" in codes(outcome)


def test_a_delta_for_an_item_that_never_began_has_no_slot() -> None:
    outcome = judge(stream(call()[1:]))
    assert (outcome.verdict, "missing_slot" in codes(outcome)) == ("blocked", True)
    outcome = judge(stream(message()[2:]))
    assert (outcome.verdict, outcome.text) == ("blocked", "Hello.")
    assert "missing_slot" in codes(outcome)


def test_an_item_that_comes_whole_is_taken_and_marked() -> None:
    outcome = judge(stream(call()[-1], message(1)[-1]))
    assert (ran(outcome), outcome.text) == ([("c1", "look", A)], "Hello.")
    assert codes(outcome, "tolerated") == ["missing_slot"]
    assert codes(outcome) == []


def test_a_delta_of_another_kind_than_its_item_blocks() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "x"}
    assert codes(judge(stream(call()[:1], delta, call()[1:]))) == ["missing_slot"]
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "x"}
    assert codes(judge(stream(message()[:1], delta, message()[1:]))) == ["missing_slot"]


def test_an_item_must_end_as_what_it_began() -> None:
    events = call()
    other = {**events[-1], "item": {"type": "message", "content": []}}
    assert "identity_collision" in codes(judge(stream(events[:-1], other)))
    for change in ({"call_id": "c7"}, {"name": "write"}, {"name": 19}, {"call_id": ["c1"]}):
        over = {**events[-1], "item": {**done(events)[0], **change}}
        assert codes(judge(stream(events[:-1], over))) == ["identity_collision"]
    assert codes(judge(stream(events, events[-1]))) == ["duplicate_terminal"]


def test_the_end_of_arguments_may_not_name_another_tool() -> None:
    events = call()
    events[3]["name"] = "look"
    assert judge(stream(events)).verdict == "commit"
    for name in ("write", 19):
        events[3]["name"] = name
        assert codes(judge(stream(events))) == ["identity_collision"]


def test_id_and_name_may_come_with_the_end_of_the_item() -> None:
    events = call()
    events[0]["item"] = {"type": "function_call", "id": "fc_c1", "arguments": ""}
    outcome = judge(stream(events))
    assert (ran(outcome), outcome.findings) == ([("c1", "look", A)], ())


def test_arguments_only_at_the_end() -> None:
    assert ran(judge(stream(call(pieces=[])))) == [("c1", "look", A)]
    only_item = [event for event in call(pieces=[]) if not str(event["type"]).endswith("arguments.done")]
    assert ran(judge(stream(only_item))) == [("c1", "look", A)]


@pytest.mark.parametrize("at", [3, 4])
@pytest.mark.parametrize("text", ['{"a":2}', "", '{"a":1} '])
def test_an_end_that_says_something_else_blocks(at: int, text: str) -> None:
    events = call()
    if at == 3:
        events[3]["arguments"] = text
    else:
        events[4]["item"] = {**events[4]["item"], "arguments": text}  # type: ignore[dict-item]
    outcome = judge(stream(events))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["missing_events"])


def test_two_ends_that_differ_block_without_any_delta() -> None:
    for first in ("", '{"a":2}'):
        events = call(pieces=[])
        events[1]["arguments"] = first
        assert "missing_events" in codes(judge(stream(events)))


@pytest.mark.parametrize("arguments", [{"a": 1}, None, 1])
def test_arguments_that_are_not_text_never_run(arguments: object) -> None:
    outcome = judge(stream(call(arguments=arguments, pieces=[])))
    assert (outcome.verdict, codes(outcome)[0]) == ("blocked", "malformed_json")


def test_empty_arguments_are_not_json() -> None:
    assert codes(judge(stream(call(arguments="", pieces=[])))) == ["malformed_json"]


@pytest.mark.parametrize("status", ["incomplete", "in_progress", "failed", 7])
def test_a_call_that_ended_without_being_completed_blocks(status: object) -> None:
    outcome = judge(stream(call(status=status)))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["missing_terminal"])


@pytest.mark.parametrize(
    "fields",
    [{"status": ""}, {"status": None}, {"status": "in_progress", "caller": {"type": "program", "caller_id": "c0"}}],
)
def test_a_call_without_status_or_of_a_program_has_ended(fields: Json) -> None:
    assert judge(stream(call(**fields))).verdict == "commit"  # type: ignore[arg-type]


def test_a_call_that_never_ended_blocks() -> None:
    assert codes(judge(stream(call()[:-1]))) == ["missing_terminal"]


def test_pieces_after_the_end_block() -> None:
    events = call()
    for at in (4, 5):
        assert "delta_after_terminal" in codes(judge(stream(events[:at], events[1], events[at:]))), at
    text = message()
    for at in (5, 6, 7):
        assert "delta_after_terminal" in codes(judge(stream(text[:at], text[2], text[at:]))), at
    assert "delta_after_terminal" in codes(judge(stream(text, text[4])))
    code = {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": "x"}
    assert "delta_after_terminal" in codes(judge(stream(whole(0, {"type": "code_interpreter_call"}), code)))


def test_a_call_keeps_its_item_beside_its_arguments() -> None:
    caller = {"type": "program", "caller_id": "c0"}
    (block,) = judge(stream(call(caller=caller))).calls
    assert [json.loads(part) for part in block.parts] == [
        {**done(call())[0], "arguments": "", "caller": caller},
    ]  # fmt: skip


def test_text_only_in_its_end_is_taken() -> None:
    events = message()
    for kept in (events[4:5], events[5:6], []):
        outcome = judge(stream(events[:2], kept, events[6:]))
        assert (outcome.verdict, outcome.text, outcome.findings) == ("commit", "Hello.", ())


@pytest.mark.parametrize("at", [4, 5, 6])
def test_text_that_its_end_contradicts_blocks_and_the_end_is_shown(at: int) -> None:
    events = json.loads(json.dumps(message()))
    key = "text" if at == 4 else "part" if at == 5 else "item"
    events[at][key] = json.loads(json.dumps(events[at][key]).replace("Hello.", "Good day."))
    outcome = judge(stream(events))
    assert (outcome.verdict, codes(outcome)) == ("blocked", ["missing_events"])
    assert outcome.text == ("Good day." if at == 6 else "Hello.")


def test_a_message_whose_end_lacks_a_part_blocks() -> None:
    assert codes(judge(stream(message(content=[])))) == ["missing_events"]
    assert judge(stream(message(content=None))).text == "Hello."


def test_several_messages_and_parts_keep_their_order() -> None:
    events = message(0, "One. ", "m0")
    second: Json = {"type": "output_text", "text": "Two. ", "annotations": []}
    place = {"output_index": 0, "item_id": "m0", "content_index": 1}
    more = [
        {"type": "response.content_part.added", **place, "part": {**second, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "Two. "},
    ]
    events[-1]["item"]["content"].append(second)  # type: ignore[index]
    outcome = judge(stream(events[:3], more, events[3:], message(1, "Three.", "m1")))
    assert (outcome.text, outcome.findings) == ("One. Two. Three.", ())
    assert [block.text for block in outcome.blocks] == ["One. ", "Two. ", "Three."]
    # What began later, but belongs to an earlier item, comes before the later item.
    first, last = message(0, "One. ", "m0"), message(1, "Three.", "m1")
    first[-1]["item"]["content"].append(second)  # type: ignore[index]
    assert judge(stream(first[:6], last, more, first[6:])).text == "One. Two. Three."


def test_annotations_log_probabilities_and_the_items_own_fields_are_kept_as_they_came() -> None:
    raw = (
        '{"type":"response.output_item.done","output_index":0,"item":{"id":"m1","type":"message","phase":"final_answer",'
        '"content":[{"type":"output_text","text":"Hello.","annotations":[{"type": "url_citation", "n": 1.0}],'
        '"logprobs":[{"token":"Hello.","logprob":-0.50}]}],"role":"assistant"}}'
    )
    outcome = judge([json.dumps(created()), *map(json.dumps, message()[:-1]), raw, json.dumps(end())])
    (block,) = outcome.blocks
    assert block.citations == ('{"type": "url_citation", "n": 1.0}',)
    assert block.parts == (
        '{"logprobs":[{"token":"Hello.","logprob":-0.50}]}',
        '{"id":"m1","type":"message","phase":"final_answer","content":[],"role":"assistant"}',
    )
    assert outcome.verdict == "commit"


def test_a_part_of_an_unknown_type_is_kept_and_blocks_beside_a_call() -> None:
    part = {"type": "output_hologram", "data": "AA"}
    events = message(content=[{"type": "output_text", "text": "Hello."}, part])
    outcome = judge(stream(events))
    assert (outcome.verdict, codes(outcome, "note")) == ("commit", ["unknown_event"])
    assert json.loads(outcome.blocks[0].parts[-1]) == part
    assert codes(judge(stream(events, call(1)))) == ["unknown_event"]
    added = {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": part}
    assert codes(judge(stream(call(), added))) == ["unknown_event"]


def test_a_message_without_parts_is_an_empty_block() -> None:
    outcome = judge(stream(whole(0, {"type": "message", "id": "m1", "role": "assistant", "content": []})))
    assert [(b.kind, b.text, len(b.parts)) for b in outcome.blocks] == [("text", "", 1)]


def test_a_message_of_another_role_is_not_what_the_model_says() -> None:
    outcome = judge(stream(whole(0, {"type": "message", "role": "user", "content": []}), call(1)))
    assert codes(outcome) == ["unknown_event"]


def test_a_refusal_is_complete_and_no_text_and_lets_no_call_run() -> None:
    outcome = judge(stream(refusal()))
    assert (outcome.verdict, outcome.stop, outcome.text) == ("commit", "complete", "")
    assert [(b.kind, b.text) for b in outcome.blocks] == [("refusal", "No.")]
    assert codes(judge(stream(refusal(), call(1)))) == ["wrong_terminal_reason"]
    changed = refusal()
    changed[4]["refusal"] = "Never."
    assert codes(judge(stream(changed))) == ["missing_events"]


def test_reasoning_is_kept_verbatim_with_its_encrypted_content() -> None:
    events = reasoning(["First.", "Then."], encrypted_content="gA+/==")
    outcome = judge(stream(events, message(1)))
    assert (outcome.reasoning, outcome.text) == ("First.Then.", "Hello.")
    assert [block.kind for block in outcome.blocks] == ["reasoning", "reasoning", "text"]
    assert outcome.blocks[0].parts == (json.dumps(events[-1]["item"]),)
    outcome = judge(stream(reasoning(raws=["Long thoughts."], encrypted_content="gA")))
    assert outcome.reasoning == "Long thoughts."
    assert json.loads(outcome.blocks[0].parts[0])["encrypted_content"] == "gA"
    assert "Long" not in outcome.blocks[0].parts[0]  # the block's text is not kept twice


def test_reasoning_that_its_end_contradicts_blocks() -> None:
    for at, key in ((4, "text"), (5, "part"), (6, "item")):
        events = json.loads(json.dumps(reasoning(["First."])))
        events[at][key] = json.loads(json.dumps(events[at][key]).replace("First.", "Other."))
        assert codes(judge(stream(events))) == ["missing_events"], at


def test_reasoning_without_any_text_is_a_block_of_its_own() -> None:
    outcome = judge(stream(reasoning(encrypted_content="gA"), message(1)))
    assert [(b.kind, b.text) for b in outcome.blocks] == [("reasoning", ""), ("text", "Hello.")]
