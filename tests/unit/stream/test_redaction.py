"""Placeholders for what a stream says: the gate finds the same, and nothing of the content is left."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.domain.stream import jsonscan, redact
from turngate.domain.stream.conformance import Fixture, UnreadableFixture, judge_fixture, read_fixture
from turngate.domain.stream.fixture_text import fixture_text
from turngate.domain.stream.placeholders import PLAIN, Names, masked, masked_number
from turngate.domain.stream.redact import RedactionChanges, essence, redact_events, redact_fixture
from turngate.domain.stream.schema_places import SchemaPlaces

FIXTURES = sorted((Path(__file__).parents[2] / "conformance" / "fixtures").glob("*.json"))
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "unit": {"enum": ["celsius", "kelvin"]},
        "when": {"type": "string", "pattern": "^[0-9]{4}$"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "free": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "near": {"$ref": "#/$defs/spot"},
        "n": {"type": "number"},
    },
    "additionalProperties": False,
    "$defs": {"spot": {"type": "object", "properties": {"kind": {"const": "harbour"}, "note": {"type": "string"}}}},
}
TOOLS: dict[str, object] = {"forecast": SCHEMA, "other": {"type": "object"}}
SECRET = "Zanzibar"


def chat(pieces: Sequence[str], name: str = "forecast", profile: str = "openai", text: str = "") -> Fixture:
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": text}, {"tool_calls": [first]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    chunks = [{"id": "r1", "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return Fixture(profile, TOOLS, [json.dumps(c, ensure_ascii=len(text) % 2 == 0) for c in chunks], None, None, "0")


def messages(pieces: Sequence[str], name: str = "forecast") -> Fixture:
    events: list[object] = [
        {"type": "message_start", "message": {"id": "m1", "content": [], "usage": {}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t1", "name": name, "input": {}},
        },
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return Fixture("anthropic", TOOLS, [json.dumps(event, ensure_ascii=False) for event in events], None, None, "0")


def bedrock(pieces: Sequence[str], name: str = "forecast") -> Fixture:
    block = {"contentBlockIndex": 0}
    events: list[object] = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {**block, "start": {"toolUse": {"toolUseId": "t1", "name": name}}}},
        *({"contentBlockDelta": {**block, "delta": {"toolUse": {"input": piece}}}} for piece in pieces),
        {"contentBlockStop": block},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 5}}},
    ]
    return Fixture("bedrock", TOOLS, [json.dumps(event) for event in events], None, None, "0")


def responses(pieces: Sequence[str], name: str = "forecast") -> Fixture:
    text, place = "".join(pieces), {"output_index": 0, "item_id": "fc_1"}
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "status": "completed"}
    final = {"id": "r1", "status": "completed", "output": [{**item, "arguments": text}]}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **place, "arguments": text},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": text}},
        {"type": "response.completed", "response": final},
    ]
    numbered = [json.dumps({**event, "sequence_number": n}, ensure_ascii=False) for n, event in enumerate(events)]
    return Fixture("openai-responses", TOOLS, numbered, None, None, "0")


def arguments_of(fixture: Fixture) -> str:
    found = []
    for event in fixture.events:
        for token in jsonscan.scan(event):
            if token.kind == "text" and token.path[-1] in ("arguments", "partial_json", "input"):
                found.append(json.loads(f'"{event[token.start : token.end]}"'))
    return "".join(found)


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
LEAF = st.one_of(WORD, st.integers(-(10**20), 10**20), st.floats(allow_nan=False, width=32), st.booleans(), st.none())
VALUE = st.recursive(
    LEAF, lambda below: st.lists(below, max_size=3) | st.dictionaries(WORD, below, max_size=3), max_leaves=6
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "city": WORD, "unit": st.sampled_from(["celsius", "kelvin", "warm"]), "when": st.sampled_from(["2026", "soon"]),
        "days": st.integers(0, 12), "free": st.dictionaries(WORD, VALUE, max_size=3), "n": LEAF,
        "tags": st.lists(WORD, max_size=4),
        "near": st.fixed_dictionaries({"kind": st.sampled_from(["harbour", "hill"]), "note": WORD}), "extra": LEAF,
    },
)  # fmt: skip
BROKEN = st.lists(
    st.sampled_from(
        [*'{}[]:,"\\ \t\nuxnN019-+.eE', "é", "字", "𝒳", "NaN", "null", '"a":', "\\u00e9", "\\ud83d", "\\udd00"]
    ),
    max_size=24,
).map("".join)


@st.composite
def argument_texts(draw: st.DrawFn) -> str:
    """Good arguments, the same with something put in, taken out or appended, or any mess."""
    text = json.dumps(draw(ARGUMENTS), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    how = draw(st.integers(0, 4))
    if how == 4:
        return draw(BROKEN)
    place, more = draw(st.integers(0, len(text))), draw(BROKEN)
    return (text, text[:place], text + more, text[:place] + more + text[place:])[how]


@pytest.mark.parametrize("profile", ["openai", "openai-compat", "anthropic", "bedrock", "openai-responses"])
@given(data=st.data())
def test_whatever_the_arguments_are_the_gate_finds_the_same(profile: str, data: st.DataObject) -> None:
    pieces = data.draw(argument_texts().flatmap(cut))
    name = data.draw(st.sampled_from(["forecast", "other", "undeclared"]))
    if profile == "anthropic":
        fixture = messages(pieces, name)
    elif profile == "bedrock":
        fixture = bedrock(pieces, name)
    elif profile == "openai-responses":
        fixture = responses(pieces, name)
    else:
        fixture = chat(pieces, name, profile, data.draw(WORD))
    events = redact_events(fixture.profile, fixture.tool_schemas, fixture.events)
    assert essence(judge_fixture(replace(fixture, events=events))) == essence(judge_fixture(fixture))
    for old, new in zip(fixture.events, events, strict=True):
        assert (len(new), len(new.encode())) == (len(old), len(old.encode()))
        assert [t.path for t in jsonscan.scan(new) if t.kind == "text"] == [
            t.path for t in jsonscan.scan(old) if t.kind == "text"
        ]


@given(text=st.text(max_size=60))
def test_an_event_that_is_no_json_stays_as_wrong_as_it_was(text: str) -> None:
    fixture = chat(['{"city":"Oslo"}'])
    raw = text.encode("utf-8", "replace").decode()
    broken = replace(fixture, events=[*fixture.events[:2], raw, '{"id":' + raw, *fixture.events[2:]])
    redact_fixture(broken)  # raises where the findings differ


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_own_fixtures_are_judged_the_same_and_survive_a_file(file: Path) -> None:
    try:
        fixture = read_fixture(file.read_bytes())
    except UnreadableFixture:
        pytest.skip("no fixture")
    redacted = redact_fixture(fixture)
    assert essence(judge_fixture(redacted)) == essence(judge_fixture(fixture))
    again = read_fixture(fixture_text(redacted))
    assert list(again.events) == list(redacted.events)
    assert (again.profile, again.tool_schemas, again.tool_choice, again.fault) == (
        redacted.profile, redacted.tool_schemas, redacted.tool_choice, redacted.fault,
    )  # fmt: skip


@pytest.mark.parametrize("write", [chat, messages, bedrock, responses])
@given(data=st.data())
def test_nothing_of_four_characters_is_left_of_what_was_said(write: object, data: st.DataObject) -> None:
    said = data.draw(st.lists(st.text(st.sampled_from("KQWZ7é字 "), min_size=4, max_size=9), min_size=3, max_size=3))
    plain = {"city": said[0], "free": {said[1]: [said[2], {"deep": said[0]}]}, "near": {"note": said[1]}}
    text = json.dumps(plain, ensure_ascii=data.draw(st.booleans()))
    assert callable(write)
    fixture = write(data.draw(cut(text)))
    out = "".join(redact_events(fixture.profile, TOOLS, fixture.events))
    for word in said:
        for at in range(len(word) - 3):
            assert word[at : at + 4] not in out
            assert json.dumps(word[at : at + 4])[1:-1] not in out


def test_prose_errors_and_opaque_values_say_nothing_more() -> None:
    fixture = read_fixture(
        json.dumps(
            {
                "profile": "openai-compat",
                "chunks": [
                    {"id": "r", "choices": [{"index": 0, "delta": {
                        "content": f"Fly to {SECRET}", "reasoning": f"{SECRET}?",
                        "reasoning_details": [{"type": "reasoning.text", "text": SECRET, "format": None}],
                    }, "logprobs": {"content": [{"token": SECRET, "bytes": [90, 97, 110], "logprob": -0.25}]}}]},
                    {"error": {"type": "server_error", "code": 503, "message": f"no way to {SECRET}", "param": SECRET}},
                    {"error": {"type": f"no way to {SECRET}", "code": f"{SECRET} is closed"}},
                ],
            }
        ).encode()
    )  # fmt: skip
    text = fixture_text(redact_fixture(fixture)).decode()
    assert SECRET not in text
    assert "[90" not in text
    assert {"server_error", "503", "reasoning.text"} <= set(re.findall(r"[\w.]+", text))


def test_what_a_schema_constrains_and_names_is_kept_and_nothing_else() -> None:
    given = '{"city":"Oslo","unit":"warm","when":"2026","days":3,'
    given += '"near":{"kind":"harbour","note":"wet"},"n":-20.5e3,"Zoo":1}'
    fixture = chat([given[:9], given[9:]])
    out = replace(fixture, events=redact_events("openai", TOOLS, fixture.events))
    assert arguments_of(out) == (
        '{"city":"xxxx","unit":"warm","when":"2026","days":3,"near":{"kind":"harbour","note":"xxx"},"n":-10.1e3,"ggg":1}'
    )


def test_equal_keys_stay_equal_and_others_apart() -> None:
    fixture = chat(['{"abc":1,"a\\u0062c":2,"xyz":{"q":1,"r":2}}'], "other")
    out = arguments_of(replace(fixture, events=redact_events("openai", TOOLS, fixture.events)))
    assert out == '{"ggg":1,"g\\u0067g":1,"hgg":{"g":1,"h":1}}'
    names = Names(frozenset({"gg"}))
    assert names.placeholder("kl") == "hg"
    assert names.placeholder("kl") == "hg"
    assert len({names.placeholder(chr(0x61 + n)) for n in range(20)}) == 20


def test_a_snapshot_that_differs_from_its_pieces_still_differs() -> None:
    stream = redact._Stream("anthropic", TOOLS, messages(['{"city":', '"Oslo"}']).events)
    reading = redact._Reading()
    assert stream._letters('"Oslo"}', reading) == PLAIN
    assert stream._letters('"Rome"}', reading) != PLAIN


def test_placed_values_follow_the_schema_at_their_place() -> None:
    part = {"functionCall": {"name": "forecast", "partialArgs": [
        {"jsonPath": "$.city", "stringValue": SECRET}, {"jsonPath": "$['near'].kind", "stringValue": "harbour"},
    ]}}  # fmt: skip
    (out,) = redact_events("none", TOOLS, [json.dumps({"candidates": [{"content": {"parts": [part]}}]})])
    assert SECRET not in out
    assert '"harbour"' in out
    assert '"$.city"' in out


def test_masks_by_size_and_keeps_what_numbers_are() -> None:
    text = 'a9 é字𝒳/"\n\ud83d'
    assert masked(text, PLAIN) == "xxx\u00f8\u4e00\U0001d465/\n\n\ud835"
    assert masked_number("-907.50E+12", PLAIN) == "-101.10E+12"
    assert masked_number("9e308", PLAIN) == "9e308"
    assert masked_number("0", PLAIN) == "0"


def test_scanning_goes_on_behind_faults() -> None:
    text = '{"a": [1, tru, "x\\q"], "b"} NaNs "open\\'
    found = [(token.kind, text[token.start : token.end]) for token in jsonscan.scan(text) if token.kind != "container"]
    assert found == [
        ("key", "a"), ("number", "1"), ("junk", "tru"), ("text", "x\\q"), ("key", "b"), ("word", "NaN"), ("junk", "s"),
        ("text", "open\\"),
    ]  # fmt: skip
    deep = "[" * 5000 + '"x"'
    assert len(jsonscan.scan(deep)[-1].path) == jsonscan.DEPTH_KEPT


def test_places_read_through_references_and_branches() -> None:
    places = SchemaPlaces(
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"anyOf": [{"properties": {"k": {"prefixItems": [{"const": 1}], "items": {}}}}, {"$ref": "#"}]}
            },
            "if": {"properties": {"mode": {"const": "x"}}},
        }
    )
    assert places.keeps(("k", 0))
    assert not places.keeps(("k", 1))
    assert places.keeps(("mode",))
    assert not places.keeps(("other",))
    assert places.keeps_key((), "k")
    assert not places.keeps_key((), "other")
    assert SchemaPlaces({"patternProperties": {"^x": True}}).keeps_key((), "any")


def test_where_the_findings_would_differ_nothing_is_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = chat(['{"days":3}'])
    monkeypatch.setattr(redact, "redact_events", lambda *_: [event.replace("3", "0") for event in fixture.events])
    with pytest.raises(RedactionChanges):
        redact_fixture(fixture)


def test_elements_that_must_differ_are_kept() -> None:
    given = '{"tags":["ab","cd"]}'
    out = redact_fixture(chat([given]))
    assert judge_fixture(out)["status"] == "pass"
    assert arguments_of(out) == given


def test_what_stands_before_sound_arguments_stays_wrong() -> None:
    fixture = chat(['\\{"city":"Oslo"}'])
    assert judge_fixture(fixture)["status"] == "fail"
    assert arguments_of(redact_fixture(fixture)).startswith("\\{")


def test_a_code_is_structure_only_in_an_error() -> None:
    event = {"item": {"code": "print"}, "error": {"code": "overloaded"}}
    (out,) = redact_events("none", {}, [json.dumps(event)])
    assert json.loads(out) == {"item": {"code": "yyyyy"}, "error": {"code": "overloaded"}}


def test_a_hosted_tools_code_is_no_error_code() -> None:
    events = [{"type": "response.code_interpreter_call_code.done", "code": SECRET}, {"code": "busy", "message": SECRET}]
    done, error = redact_events("none", {}, [json.dumps(event) for event in events])
    assert SECRET not in done + error
    assert json.loads(error)["code"] == "busy"


def test_events_sent_again_or_out_of_order_keep_the_placeholder_of_their_number() -> None:
    fixture = responses(['{"city":"Zan', "zib", 'ar","days":3}'])
    events = list(fixture.events)
    again = replace(fixture, events=[*events[:2], events[3], events[2], *events[4:5], events[2], *events[5:]])
    assert judge_fixture(again)["status"] == "pass"
    out = redact_fixture(again)
    assert judge_fixture(out)["status"] == "pass"
    assert SECRET[3:6] not in "".join(out.events)
    assert out.events[5] == out.events[3]


def test_an_unknown_fault_is_no_fixture() -> None:
    with pytest.raises(UnreadableFixture):
        read_fixture(b'{"profile":"bedrock","events":[],"fault":"moon"}')


def test_a_broken_escape_in_a_key_stays_broken() -> None:
    fixture = chat(['{"\\u{0007":1}'], "other")
    assert judge_fixture(fixture)["status"] == "fail"
    redact_fixture(fixture)


def test_meta_is_left_out() -> None:
    assert redact_fixture(replace(chat(["{}"]), meta={"note": SECRET})).meta is None


FREE = {
    "name": SECRET,
    "patient_id": SECRET,
    "status": SECRET,
    SECRET: 1,
    "usage": {"n": 7654321},
    "in": [{"id": SECRET}],
}


@pytest.mark.parametrize(
    ("profile", "event"),
    [
        ("openai-responses", {"type": "response.created", "response": {"id": "r", "metadata": FREE}}),
        ("bedrock", {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolResult": [{"json": FREE}]}}}),
        ("gemini", {"candidates": [{"content": {"parts": [{"functionResponse": {"name": "f", "response": FREE}}]}}]}),
        ("openai-compat", {"id": "r", "choices": [{"index": 0, "delta": {"provider_metadata": FREE}}]}),
        ("anthropic", {"type": "content_block_start", "index": 0, "content_block": {"structuredContent": FREE}}),
    ],
)
def test_of_json_that_anybody_writes_no_key_and_no_value_is_left(profile: str, event: object) -> None:
    (redacted,) = redact_events(profile, {}, [json.dumps(event)])
    assert SECRET not in redacted
    assert "7654321" not in redacted
    assert "status" not in redacted
    assert len(redacted) == len(json.dumps(event))


def test_the_metadata_of_the_wire_is_structure() -> None:
    event = json.dumps({"metadata": {"usage": {"inputTokens": 12, "outputTokens": 34}, "metrics": {"latencyMs": 56}}})
    assert redact_events("bedrock", {}, [event]) == [event]
