"""The profile `gemini`: every row of its tables, whole and partial calls, and what it refuses."""

from __future__ import annotations

import json

import pytest

from turngate.domain.adapters.gemini import normaliser_tables as tables
from turngate.domain.stream import Assembler, EndCause, Outcome, StreamEnd, compile_toolset

TOOLS = compile_toolset({name: {"type": "object"} for name in ("alpha", "beta")})
Json = dict[str, object]


def chunk(*parts: object, finish: object = None, **candidate: object) -> str:
    body: Json = {"content": {"role": "model", "parts": list(parts)}, **candidate}
    if finish is not None:
        body["finishReason"] = finish
    return json.dumps({"candidates": [body], "responseId": "R-1", "modelVersion": "m"})


def call(**fields: object) -> Json:
    return {"functionCall": fields}


def piece(path: str, more: bool | None = True, **value: object) -> Json:
    flag: Json = {} if more is None else {"willContinue": more}
    return call(partialArgs=[{"jsonPath": path, **value}], **flag)


STOP = chunk(finish="STOP")
ALPHA = call(name="alpha", id="a", args={})
HEI = chunk({"text": "hei"})


def judge(*events: str) -> Outcome:
    assembler = Assembler(profile="gemini", tools=TOOLS)
    assembler.feed(0, events)
    return assembler.end(StreamEnd("eof"))


def errors(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings if finding.severity == "error"}


# -- stops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "stop"), [*tables.STOPS.items(), *tables.STOP_NUMBERS.items()])
def test_every_finish_reason(word: object, stop: str) -> None:
    plain = judge(HEI, chunk(finish=word))
    assert plain.stop == stop
    assert plain.verdict == ("failed" if stop == "error" else "commit")
    assert plain.continues == (stop == "paused")
    with_call = judge(chunk(ALPHA), chunk(finish=word))
    assert bool(with_call.calls) == (stop == "complete")
    assert with_call.stop == ("tool_calls" if stop == "complete" else stop)


def test_the_table_of_stops_is_the_apis() -> None:
    classes: dict[str, set[str]] = {}
    for word, stop in tables.STOPS.items():
        classes.setdefault(stop, set()).add(word)
    assert classes["complete"] == {"STOP"}
    assert classes["truncated"] == {"MAX_TOKENS"}
    assert classes["paused"] == {"CONTINUATION"}
    assert (len(classes["filtered"]), len(classes["error"])) == (11, 9)
    assert "tool_calls" not in classes


@pytest.mark.parametrize("word", ["FAKE_ENUM", 9, 10, 12, 99, True, 1.0, ["STOP"]])
def test_an_unknown_finish_reason_commits_nothing(word: object) -> None:
    for event in (HEI, chunk(ALPHA)):
        outcome = judge(event, chunk(finish=word))
        assert (outcome.stop, outcome.blocks) == ("unknown", ())
        assert "wrong_terminal_reason" in errors(outcome)


@pytest.mark.parametrize("word", ["", 0, "FINISH_REASON_UNSPECIFIED"])
def test_the_unspecified_reason_is_none(word: object) -> None:
    outcome = judge(chunk(ALPHA), chunk(finish=word))
    assert (outcome.verdict, outcome.stop) == ("unknown", "unknown")


def test_a_request_defect_is_not_retried() -> None:
    assert judge(chunk(finish="MISSING_THOUGHT_SIGNATURE")).retry == "never"
    assert judge(chunk(finish="MALFORMED_FUNCTION_CALL")).retry == "ladder"


@pytest.mark.parametrize(("reason", "stop"), tables.BLOCK_REASONS.items())
def test_a_blocked_prompt_is_a_refusal(reason: object, stop: str) -> None:
    outcome = judge(json.dumps({"promptFeedback": {"blockReason": reason, "blockReasonMessage": "no"}}))
    assert (outcome.verdict, outcome.stop, stop) == ("commit", "filtered", "filtered")
    assert [(b.kind, b.text) for b in outcome.blocks] == [("refusal", "no")]


@pytest.mark.parametrize("reason", ["BLOCKED_REASON_UNSPECIFIED", "NEW", 0, 77, [], True])
def test_an_unknown_block_reason_commits_nothing(reason: object) -> None:
    outcome = judge(json.dumps({"promptFeedback": {"blockReason": reason}}))
    assert (outcome.verdict, outcome.stop) == ("blocked", "unknown")


def test_ratings_of_the_prompt_alone_mean_nothing() -> None:
    event = json.dumps({"promptFeedback": {"safetyRatings": [{"category": "X", "probability": "NEW"}]}})
    assert judge(event, HEI, STOP).verdict == "commit"


def test_a_filtered_answer_without_content_is_a_refusal_and_with_content_keeps_it() -> None:
    assert [b.kind for b in judge(chunk(finish="SAFETY")).blocks] == ["refusal"]
    assert [b.text for b in judge(HEI, chunk(finish="SAFETY")).blocks] == ["hei"]


@pytest.mark.parametrize(("word", "error_class"), tables.ERROR_CLASSES.items())
def test_errors_in_the_stream(word: object, error_class: str) -> None:
    error = {"status": word} if isinstance(word, str) else {"code": word}
    outcome = judge(chunk(ALPHA, finish="STOP"), json.dumps({"error": error}))
    assert (outcome.verdict, outcome.calls, errors(outcome)) == ("failed", (), {"provider_error"})
    assert (outcome.retry, error_class in ("auth", "invalid_request")) == ("never", True)


def test_any_other_error_may_be_retried() -> None:
    assert judge(HEI, json.dumps({"error": {"code": 503, "status": "UNAVAILABLE"}})).retry == "ladder"


# -- a stop that is not the last --------------------------------------------------------------------------------


def test_a_stop_before_more_text_is_not_the_end() -> None:
    outcome = judge(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, finish="STOP"))
    assert (outcome.verdict, outcome.text, outcome.stop) == ("commit", "ab", "complete")
    assert judge(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"})).verdict == "unknown"


@pytest.mark.parametrize("cause", ["reset", "timeout", "ownerGone", "handover"])
def test_a_stop_that_may_go_on_is_the_end_only_where_the_body_ends(cause: EndCause) -> None:
    """Older models say STOP in every chunk: cut in the middle, such a stream is not a shorter answer."""
    every = [chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, finish="STOP")]
    for closed, verdict in ((False, "unknown"), (True, "failed")):
        assembler = Assembler(profile="gemini", tools=TOOLS)
        assembler.feed(0, every)
        assert assembler.end(StreamEnd(cause, evidence_closed=closed)).verdict == verdict
    assert judge(*every).text == "ab"
    for last in (chunk(ALPHA, finish="STOP"), chunk(finish="MAX_TOKENS")):
        assembler = Assembler(profile="gemini", tools=TOOLS)
        assembler.feed(0, [HEI, last] if "alpha" not in last else [last])
        assert assembler.end(StreamEnd(cause)).verdict == "commit"


def test_a_call_may_follow_a_stop_and_then_needs_its_own() -> None:
    assert len(judge(chunk({"text": "a"}, finish="STOP"), chunk(ALPHA, finish="STOP")).calls) == 1
    assert judge(chunk({"text": "a"}, finish="STOP"), chunk(ALPHA)).verdict == "unknown"


@pytest.mark.parametrize("part", [{"text": "b"}, call(name="beta", id="b"), {"executableCode": {}}])
def test_a_stop_beside_a_call_is_the_end(part: Json) -> None:
    outcome = judge(chunk(ALPHA, finish="STOP"), chunk(part, finish="STOP"))
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert "delta_after_terminal" in errors(outcome)


@pytest.mark.parametrize("word", ["MAX_TOKENS", "SAFETY", "CONTINUATION", "NEW"])
def test_any_other_reason_is_the_end(word: str) -> None:
    assert "delta_after_terminal" in errors(judge(chunk({"text": "a"}, finish=word), chunk({"text": "b"}, finish=word)))
    assert "duplicate_terminal" in errors(judge(chunk({"text": "a"}, finish=word), STOP))


def test_the_same_reason_again_changes_nothing_and_a_worse_one_after_stop_holds() -> None:
    assert len(judge(chunk(ALPHA, finish="STOP"), chunk({"text": ""}, finish="STOP")).calls) == 1
    outcome = judge(chunk({"text": "a"}, finish="STOP"), chunk(finish="RECITATION"))
    assert (outcome.verdict, outcome.stop, outcome.text) == ("commit", "filtered", "a")
    assert judge(chunk(ALPHA, finish="STOP"), chunk(finish="MAX_TOKENS")).verdict == "blocked"
    assert "duplicate_terminal" in errors(judge(chunk({"text": "a"}, finish="SAFETY"), chunk(finish="RECITATION")))


# -- parts ------------------------------------------------------------------------------------------------------


def test_text_and_thoughts_become_blocks() -> None:
    outcome = judge(
        chunk({"text": "th", "thought": True}),
        chunk({"text": "ink", "thought": True}, {"text": "a"}),
        chunk({"text": "b", "thought": False}, {"text": ""}, {}),
        STOP,
    )
    assert [(b.kind, b.text) for b in outcome.blocks] == [("thinking", "think"), ("text", "ab")]
    assert outcome.findings == ()


def test_a_signature_stays_on_its_own_part() -> None:
    empty = {"text": "", "thoughtSignature": "c=="}
    bare = {"thoughtSignature": "d=="}
    parts = ({"text": "a"}, {"text": "b", "thoughtSignature": "b=="}, {"text": "c"}, empty, bare)
    outcome = judge(chunk(*parts), STOP)
    assert [(b.kind, b.text, b.signature, b.data) for b in outcome.blocks] == [
        ("text", "a", None, None),
        ("text", "b", "b==", None),
        ("text", "c", None, None),
        ("text", "", "c==", json.dumps(empty)),
        ("thinking", "", "d==", json.dumps(bare)),
    ]
    (only,) = judge(chunk({**ALPHA, "thoughtSignature": "e=="}), STOP).calls
    assert only.signature == "e=="


@pytest.mark.parametrize(("word", "kind"), tables.PART_KINDS.items())
def test_opaque_parts_are_kept_verbatim(word: str, kind: str) -> None:
    part = {word: {"mimeType": "image/png", "id": "s", "n": 1.0}, "thoughtSignature": "x=="}
    outcome = judge(chunk({"text": "a"}, part, {"text": "b"}), STOP)
    assert [b.kind for b in outcome.blocks] == ["text", kind, "text"]
    assert (outcome.blocks[1].data, outcome.blocks[1].signature) == (json.dumps(part), "x==")
    assert len(judge(chunk(part, ALPHA), STOP).calls) == 1


def test_data_that_is_no_image_is_a_document() -> None:
    outcome = judge(chunk({"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}}), STOP)
    assert [b.kind for b in outcome.blocks] == ["document"]


@pytest.mark.parametrize("key", sorted(tables.PART_BESIDE - {"thought", "thoughtSignature"}))
def test_fields_beside_a_part_change_nothing(key: str) -> None:
    outcome = judge(chunk({"text": "a", key: {"x": 1}}, ALPHA), STOP)
    assert (outcome.verdict, outcome.text, outcome.findings) == ("commit", "a", ())


@pytest.mark.parametrize(("key", "field"), tables.CANDIDATE_KEPT.items())
def test_what_is_said_about_the_answer_is_kept(key: str, field: str) -> None:
    value = {"a": [1.0]}
    kept = json.dumps({key: value})
    outcome = judge(chunk({"text": "a"}, **{key: value}), STOP)
    (block,) = outcome.blocks
    texts = [json.dumps(json.loads(t)) for t in (block.citations if field == "citation" else block.parts)]
    assert texts == [kept]
    for late in (judge(HEI, STOP, chunk(**{key: value})), judge(chunk(ALPHA), STOP, chunk(**{key: value}))):
        assert late.verdict == "commit"
        assert json.loads(late.blocks[-1].data or "") == {key: value}
    assert judge(chunk({"text": "a"}, **{key: {}}), STOP).blocks[0].citations == ()


@pytest.mark.parametrize("key", sorted(tables.CANDIDATE_IGNORABLE))
def test_ignorable_fields_of_a_candidate(key: str) -> None:
    assert judge(chunk(ALPHA, **{key: [1]}), STOP).findings == ()


@pytest.mark.parametrize("key", sorted(tables.CHUNK_KEYS - {"candidates"}))
def test_ignorable_fields_of_a_chunk(key: str) -> None:
    extra = json.dumps({key: "R-1"})
    assert judge(chunk(ALPHA), extra, STOP).findings == ()


UNKNOWN = [
    json.dumps({"candidates": [], "toolSparkle": 1}),
    chunk(functionSparkle=1),
    chunk({"sparkle": 1}),
    chunk({"text": "a", "sparkle": 1}),
    chunk({"text": "a", "inlineData": {}}),
    chunk({"text": 3}),
    chunk(3),
    json.dumps({"candidates": [{"content": {"parts": {}}}]}),
    json.dumps({"candidates": [{"content": {"sparkleCall": 1}}]}),
    json.dumps({"candidates": [{"content": 3}]}),
    json.dumps({"candidates": [3]}),
    json.dumps({"candidates": {}}),
    json.dumps(3),
]


@pytest.mark.parametrize("event", UNKNOWN)
def test_the_unknown_blocks_beside_a_call_alone(event: str) -> None:
    outcome = judge(chunk(ALPHA), event, STOP)
    assert (outcome.verdict, "unknown_event" in errors(outcome)) == ("blocked", True)
    assert judge(HEI, event, STOP).verdict == "commit"


@pytest.mark.parametrize(
    "event",
    [
        json.dumps({"candidates": [], "sparkle": 1}),
        chunk(sparkle=1),
        json.dumps({"candidates": [{"content": {"sparkle": 1}}]}),
    ],
)
def test_a_field_that_the_api_has_gained_is_noted_and_means_nothing(event: str) -> None:
    outcome = judge(chunk(ALPHA), event, STOP)
    assert (outcome.verdict, len(outcome.calls)) == ("commit", 1)
    assert [(finding.code, finding.severity) for finding in outcome.findings] == [("unknown_event", "note")]


@pytest.mark.parametrize("key", ["function_call", "toolCallV2", "functionResponse"])
def test_an_unknown_part_that_may_be_a_call_counts_as_one(key: str) -> None:
    outcome = judge(HEI, chunk({key: {"name": "alpha"}}), STOP)
    assert (outcome.verdict, "unknown_event" in errors(outcome)) == ("blocked", True)


# -- whole calls ------------------------------------------------------------------------------------------------


def test_arguments_keep_their_exact_text() -> None:
    args = '{"n":  123456789012345678901, "x": 1.0, "é": "\\u00e9"}'
    raw = chunk(call(name="alpha", id="a", args="ARGS")).replace('"ARGS"', args)
    (only,) = judge(raw, STOP).calls
    assert only.arguments_raw == args
    assert only.arguments == {"n": 123456789012345678901, "x": 1.0, "é": "é"}


@pytest.mark.parametrize("fields", [{}, {"args": None}, {"args": {}}])
def test_absent_arguments_are_an_empty_object(fields: Json) -> None:
    (only,) = judge(chunk(call(name="alpha", **fields)), STOP).calls
    assert (only.arguments_raw, only.arguments) == ("{}", {})


def test_a_call_without_an_id_gets_one_from_response_and_place() -> None:
    same = call(name="alpha", args={"n": 1})
    outcome = judge(chunk(same, same), chunk(call(name="beta", id="x")), chunk(same), STOP)
    assert [c.call_id for c in outcome.calls] == ["minted-R-1-0", "minted-R-1-1", "x", "minted-R-1-3"]
    bare = json.dumps({"candidates": [{"content": {"parts": [same]}, "finishReason": "STOP"}]})
    assert [c.call_id for c in judge(bare).calls] == ["minted-0"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "alpha", "args": [1]}, "non_object_arguments"),
        ({"name": "alpha", "args": "{}"}, "non_object_arguments"),
        ({"name": "gamma"}, "unknown_tool"),
        ({"args": {}}, "missing_slot"),
        ({"name": "alpha", "argsText": "{}"}, "unknown_event"),
    ],
)
def test_calls_that_are_refused(fields: Json, code: str) -> None:
    outcome = judge(chunk(ALPHA), chunk({"functionCall": fields}), STOP)
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert code in errors(outcome)


def test_ids_and_responses_that_collide() -> None:
    assert "duplicate_call_id" in errors(judge(chunk(ALPHA, ALPHA), STOP))
    assert "identity_collision" in errors(judge(chunk(ALPHA), STOP.replace("R-1", "R-2")))


def test_candidates() -> None:
    second = chunk({"text": "b"}, finish="STOP", index=1)
    assert errors(judge(HEI, STOP, second)) == {"multiple_choices"}
    two = json.dumps({"candidates": [{"content": {"parts": [{"text": "a"}]}}, {"content": {"parts": [{"text": "b"}]}}]})
    assert "missing_slot" in errors(judge(two, STOP))
    assert judge(HEI, chunk({"text": "b"}, index=1), STOP).verdict == "unknown"


# -- partial calls ----------------------------------------------------------------------------------------------

BEGIN = chunk(call(name="alpha", willContinue=True))
END = chunk(call())


def raw_arguments(*pieces: Json, end: bool = True) -> str | None:
    outcome = judge(BEGIN, *(chunk(p) for p in pieces), *([END] if end else []), STOP)
    assert errors(outcome) == set()
    return outcome.calls[0].arguments_raw


def test_values_at_paths_become_one_object() -> None:
    assert raw_arguments() == "{}"
    assert (
        raw_arguments(
            piece("$.rows[0].op", stringValue="ad", more=True),
            piece("$.rows[0].qty", numberValue=1.25),
            piece("$.rows[1].op", stringValue='"'),
            piece("$['a b'][\"c'\"]", boolValue=True),
            piece("$['it\\'s \"x\"']", nullValue="NULL_VALUE"),
            piece("$.rows[0].note", boolValue=False),
            piece("$.grid[0][0]", numberValue=10),
            piece("$.grid[0][1]", numberValue=-3),
        )
        == '{"rows":[{"op":"ad","qty":1.25,"note":false},{"op":"\\""}],"a b":{"c\'":true},"it\'s \\"x\\"":null,'
        '"grid":[[10,-3]]}'
    )


def test_strings_grow_while_their_piece_says_so() -> None:
    def part(text: str, more: bool) -> Json:
        return call(partialArgs=[{"jsonPath": "$.s", "stringValue": text, "willContinue": more}], willContinue=True)

    assert raw_arguments(part("Bø", True), part("", True), part("dø", False)) == '{"s":"Bødø"}'
    cut = judge(BEGIN, chunk(part("B", True)), END, STOP)
    assert (cut.verdict, "malformed_json" in errors(cut)) == ("blocked", True)
    late = judge(BEGIN, chunk(part("B", False)), chunk(part("C", False)), END, STOP)
    assert (late.verdict, "duplicate_key" in errors(late)) == ("blocked", True)


@pytest.mark.parametrize("flag", [None, False])
def test_the_last_piece_may_close_the_call(flag: bool | None) -> None:
    assert raw_arguments(piece("$.a", numberValue=1), piece("$.b", flag, numberValue=2), end=False) == '{"a":1,"b":2}'
    one = call(name="alpha", partialArgs=[{"jsonPath": "$.a", "numberValue": 1}])
    assert judge(chunk(one), STOP).calls[0].arguments_raw == '{"a":1}'


def test_numbers_keep_their_exact_text() -> None:
    raw = chunk(piece("$.n", numberValue=0)).replace('"numberValue": 0', '"numberValue": 123456789012345678901.50')
    assert judge(BEGIN, raw, END, STOP).calls[0].arguments_raw == '{"n":123456789012345678901.50}'


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (piece("$.n", numberValue="NaN"), "non_finite_number"),
        (piece("$.n", numberValue="1"), "malformed_json"),
        (piece("$.n", numberValue=True), "malformed_json"),
        (piece("$.n", boolValue=1), "malformed_json"),
        (piece("$.n", stringValue=1), "malformed_json"),
        (piece("$.n"), "malformed_json"),
        (piece("$.n", stringValue="a", numberValue=1), "malformed_json"),
        (piece("$.n", stringValue="a", sparkle=1), "malformed_json"),
        (piece("$", numberValue=1), "malformed_json"),
        (piece("n", numberValue=1), "malformed_json"),
        (piece("$..n", numberValue=1), "malformed_json"),
        (piece("$.*", numberValue=1), "malformed_json"),
        (piece("$.n[-1]", numberValue=1), "malformed_json"),
        (piece("$.n[01]", numberValue=1), "malformed_json"),
        (piece("$['\\q']", numberValue=1), "malformed_json"),
        (piece("$['\\ud800']", numberValue=1), "invalid_unicode"),
        (piece("$.n[1]", numberValue=1), "malformed_json"),
        (piece("$[0]", numberValue=1), "malformed_json"),
        (piece("$.k.n", numberValue=1), "malformed_json"),
        (piece("$.k[0]", numberValue=1), "malformed_json"),
        (piece("$.k", numberValue=1), "duplicate_key"),
        (piece("$.o", numberValue=1), "duplicate_key"),
        (piece("$.o[0]", numberValue=1), "malformed_json"),
        (piece("$" + ".a" * 65, numberValue=1), "too_large"),
        (piece("$.n", stringValue="x" * 512_001), "too_large"),
        (call(partialArgs={}, willContinue=True), "malformed_json"),
        (call(args={"a": 1}, willContinue=True), "malformed_json"),
        (call(id="other", willContinue=True), "identity_collision"),
        (call(name="beta", willContinue=True), "missing_terminal"),
    ],
)
def test_pieces_that_are_refused(bad: Json, code: str) -> None:
    before = (BEGIN, chunk(piece("$.k", numberValue=1)), chunk(piece("$.o.p", numberValue=1)))
    outcome = judge(*before, chunk(bad), END, STOP)
    assert (outcome.verdict, outcome.calls) == ("blocked", ())
    assert code in errors(outcome)


def test_a_call_that_never_ends_does_not_run() -> None:
    outcome = judge(BEGIN, chunk(piece("$.a", numberValue=1)), STOP)
    assert (outcome.verdict, "missing_terminal" in errors(outcome)) == ("blocked", True)
    outcome = judge(BEGIN, STOP, END)
    assert (outcome.verdict, "delta_after_terminal" in errors(outcome)) == ("blocked", True)


def test_a_piece_after_the_stop_is_seen_even_if_it_ends_nothing() -> None:
    outcome = judge(BEGIN, STOP, chunk(piece("$.a", numberValue=1)))
    assert "delta_after_terminal" in errors(outcome)


def test_a_name_again_goes_on_with_its_call_only_by_id() -> None:
    named = chunk(call(name="alpha", id="a", willContinue=True))
    (only,) = judge(named, named, chunk(piece("$.a", numberValue=1)), END, STOP).calls
    assert (only.call_id, only.arguments_raw) == ("a", '{"a":1}')
    outcome = judge(BEGIN, BEGIN, END, STOP)
    assert (outcome.verdict, "missing_terminal" in errors(outcome)) == ("blocked", True)


def test_pieces_without_a_call() -> None:
    for event in (END, chunk(piece("$.a", numberValue=1))):
        outcome = judge(HEI, event, STOP)
        assert (outcome.verdict, "missing_slot" in errors(outcome)) == ("blocked", True)


def test_usage_comes_last_and_the_handle_is_the_response_id() -> None:
    usages = [json.dumps({"usageMetadata": {"totalTokenCount": n}}) for n in (1, 2)]
    outcome = judge(usages[0], HEI, STOP, usages[1])
    assert (outcome.usage, outcome.usage_raw, outcome.handle) == (
        {"totalTokenCount": 2},
        '{"totalTokenCount": 2}',
        "R-1",
    )
