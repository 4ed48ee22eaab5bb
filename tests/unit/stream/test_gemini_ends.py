"""The profile `gemini`: where a call in pieces ends, and numbers that hide nothing of how the turn ended."""

from __future__ import annotations

import json

import pytest

from turngate.domain.stream import Assembler, Outcome, StreamEnd, compile_toolset

TOOLS = compile_toolset({"alpha": {"type": "object"}})
Json = dict[str, object]


def chunk(*parts: object, finish: object = None) -> str:
    body: Json = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        body["finishReason"] = finish
    return json.dumps({"candidates": [body], "responseId": "R-1"})


def call(**fields: object) -> Json:
    return {"functionCall": fields}


BEGIN = chunk(call(name="alpha", willContinue=True))
LAST = chunk(call(partialArgs=[{"jsonPath": "$.a", "numberValue": 1}]))
"""Without a flag: nothing more is to come."""
END = chunk(call())
WHOLE = chunk(call(name="alpha", id="a", args={}))
STOP = chunk(finish="STOP")


def judge(*events: str) -> Outcome:
    assembler = Assembler(profile="gemini", tools=TOOLS)
    assembler.feed(0, events)
    return assembler.end(StreamEnd("eof"))


@pytest.mark.parametrize("events", [(BEGIN, LAST), (BEGIN, LAST, END), (BEGIN, LAST, END, WHOLE)])
def test_an_end_mark_may_follow_the_last_piece_without_a_flag(events: tuple[str, ...]) -> None:
    outcome = judge(*events, STOP)
    assert (outcome.verdict, outcome.calls[0].arguments_raw) == ("commit", '{"a":1}')


@pytest.mark.parametrize(
    "events",
    [
        (WHOLE, END, STOP),
        (BEGIN, LAST, END, END, STOP),
        (BEGIN, LAST, chunk({"text": "hei"}), END, STOP),
        (BEGIN, LAST, STOP, END),
        (BEGIN, LAST, chunk({**call(), "thoughtSignature": "s"}), STOP),
    ],
)
def test_an_end_mark_anywhere_else_blocks(events: tuple[str, ...]) -> None:
    assert judge(*events).verdict == "blocked"


@pytest.mark.parametrize("number", ["NaN", "1e999", "9" * 400, "9" * 5000])
def test_a_number_that_is_none_blocks_and_hides_no_stop(number: str) -> None:
    event = chunk(call(name="alpha", args={"n": "HERE"}), finish="STOP").replace('"HERE"', number)
    outcome = judge(event)
    assert (outcome.verdict, outcome.stop) == ("blocked", "tool_calls")
    codes = {finding.code for finding in outcome.findings if finding.severity == "error"}
    assert codes == {"too_large" if number.isdecimal() else "non_finite_number"}


def test_a_number_that_is_none_leaves_its_usage_out() -> None:
    event = json.loads(STOP)
    text = json.dumps({**event, "usageMetadata": {"totalTokenCount": float("nan")}})
    outcome = judge(WHOLE, text)
    assert (outcome.verdict, outcome.usage) == ("blocked", None)
