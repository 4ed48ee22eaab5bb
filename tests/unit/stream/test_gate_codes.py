"""Every finding code of the stream gate: one pinned stream that triggers it and a near miss that does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import pytest

from turngate.domain.stream import Assembler, GateCode, Limits, Outcome, StreamEnd, compile_toolset
from turngate.testing import responses_events

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: dict[str, object] = {
    "weather": CITY,
    "any": {"type": "object"},
    "go": {"type": "object"},
    "gogo": {"type": "object"},
    "bad": {"type": "object", "properties": {"x": {"nullable": True}}},
}
BERGEN = '{"city": "Bergen"}'


def chunk(delta: dict[str, object] | None = None, finish: str | None = None, choice: int = 0) -> str:
    body = {"index": choice, "delta": delta or {}, "finish_reason": finish}
    return json.dumps({"id": "cmpl-1", "object": "chat.completion.chunk", "choices": [body]})


def frag(
    arguments: object,
    index: int | None = 0,
    ident: str | None = None,
    name: str | None = None,
    choice: int = 0,
) -> str:
    entry: dict[str, object] = {"function": {"arguments": arguments} | ({"name": name} if name else {})}
    if index is not None:
        entry["index"] = index
    if ident is not None:
        entry["id"] = ident
    return chunk({"tool_calls": [entry]}, choice=choice)


def call(
    arguments: object = BERGEN,
    index: int | None = 0,
    ident: str = "c1",
    name: str = "weather",
    choice: int = 0,
) -> str:
    return frag(arguments, index, ident, name, choice)


def message(*blocks: Sequence[dict[str, object]], stop: str | None = "tool_use", end: bool = True) -> list[str]:
    events: list[dict[str, object]] = [{"type": "message_start", "message": {"id": "m1", "content": [], "usage": {}}}]
    events += [event for block in blocks for event in block]
    if stop:
        events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})
    if end:
        events.append({"type": "message_stop"})
    return [json.dumps(event) for event in events]


def use(
    arguments: str = BERGEN, index: int = 0, ident: str = "t1", name: str = "weather", closed: bool = True
) -> list[dict[str, object]]:
    start = {"type": "tool_use", "id": ident, "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    events: list[dict[str, object]] = [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
    ]
    return [*events, {"type": "content_block_stop", "index": index}] if closed else events


CALLS = chunk(finish="tool_calls")
STOP = chunk(finish="stop")
HELLO = chunk({"content": "hello"})
BEHIND = json.dumps(use(index=7)[1])
"""A piece of a call that never began."""


RESPONSES = "openai-responses"
Event = responses_events.Json
CUT = responses_events.end("incomplete", incomplete_details={"reason": "max_output_tokens"})
CUSTOM: Event = {"type": "custom_tool_call", "call_id": "r1", "name": "weather", "input": BERGEN}
NEW: Event = {"type": "response.surprise"}
ERROR: Event = {"type": "error", "code": "server_error", "message": "", "param": None}


def use_of(index: int = 0, ident: str = "r1") -> list[Event]:
    """A call of the Responses API."""
    return responses_events.call(index, ident, BERGEN, "weather")


def response(*events: Event | list[Event], last: Event | None = None) -> list[str]:
    return [json.dumps(event) for event in responses_events.stream(*events, last=last)]


def final(*items: list[Event]) -> Event:
    return responses_events.end(output=responses_events.done(*items))


def late(number: int, event: Event) -> list[str]:
    """What comes after a terminal, under the number that is due."""
    return [json.dumps({**event, "sequence_number": number + 1})]


@dataclass
class Case:
    code: GateCode
    profile: str
    events: list[str]
    near: list[str]
    verdict: str = "blocked"
    tools: dict[str, object] = field(default_factory=lambda: dict(TOOLS))
    limits: Limits = field(default_factory=Limits)
    count: int | None = None


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


CASES = [
    Case(
        "identity_collision",
        "openai",
        [call(), call(ident="c2"), CALLS],
        [call(), call(index=1, ident="c2"), CALLS],
    ),
    Case(
        "identity_collision",
        "openai",
        [call("{"), frag("}", name="any"), CALLS],
        [call("{}", name="any"), frag(""), CALLS],
    ),
    Case(
        "identity_collision",
        "openai-compat",
        [call('{"city": "B'), call('{"city": "', ident="c2"), frag('ergen"}'), frag('x"}'), CALLS],
        [call(), call(ident="c2"), CALLS],
    ),
    Case(
        "identity_collision",
        "openai-compat",
        [call('{"city"'), call(ident="c2"), CALLS],
        [call(), call(), CALLS][::2],
    ),
    Case(
        "identity_collision",
        "openai-compat",
        [call('{"n"', name="go"), frag(": 1}", name="go"), CALLS],
        [call('{"city"', name="weather"), frag(': "x"}', name="weather"), CALLS],
    ),
    Case(
        "identity_collision",
        "anthropic",
        message(use(), use(ident="t2")),
        message(use(), use(index=1, ident="t2")),
    ),
    Case(
        "identity_collision",
        "openai",
        [call("", name="wea"), call(name="ther"), CALLS],
        [call(""), call(), CALLS],
    ),
    Case(
        "identity_collision",
        "mistral",
        [call("", None, name="wea"), call(BERGEN, None, name="ther"), CALLS],
        [call("", None), call(BERGEN, None), CALLS],
    ),
    Case("missing_slot", "openai", [call(index=None), CALLS], [call(), CALLS]),
    Case(
        "missing_slot",
        "openai-compat",
        [call("{", index=None), call("{", None, "c2"), frag("}", None), CALLS],
        [call('{"city": "B', index=None), frag('"}', None), CALLS],
    ),
    Case("missing_slot", "anthropic", message(use()[1:]), message(use())),
    Case("missing_identity", "openai", [frag(BERGEN, 0, None, "weather"), CALLS], [call(), CALLS]),
    Case(
        "missing_identity",
        "openai",
        [frag(BERGEN, 0, "", "weather"), CALLS],
        [call(""), frag(BERGEN, 0, ""), CALLS],
    ),
    Case(
        "missing_identity",
        "openai-compat",
        [frag(BERGEN, 0, None, "weather"), CALLS],
        [frag("", 0, None, "weather"), frag(BERGEN, 0, "c1"), CALLS],
    ),
    Case(
        "missing_identity",
        "openai",
        [chunk({"function_call": {"name": "weather", "arguments": BERGEN}}), CALLS],
        [call(), CALLS],
    ),
    Case("missing_terminal", "openai", [call(), "[DONE]"], [call(), CALLS, "[DONE]"], "unknown"),
    Case("missing_terminal", "anthropic", message(use(), end=False), message(use()), "unknown"),
    Case("missing_terminal", "anthropic", message(use(closed=False)), message(use())),
    Case("wrong_terminal_reason", "openai", [call(), STOP], [call(), CALLS]),
    Case("wrong_terminal_reason", "openai", [HELLO, CALLS], [HELLO, STOP]),
    Case("wrong_terminal_reason", "openai", [call(), chunk(finish="length")], [HELLO, chunk(finish="length")]),
    Case("wrong_terminal_reason", "openai-compat", [call(), chunk(finish="load")], [call(), STOP]),
    Case("wrong_terminal_reason", "anthropic", message(use(), stop="end_turn"), message(use())),
    Case("wrong_terminal_reason", "anthropic", message(use(), stop="max_tokens"), message(stop="max_tokens")),
    Case("wrong_terminal_reason", "anthropic", message(use(), stop="pause_turn"), message(stop="pause_turn")),
    Case("duplicate_terminal", "openai", [call(), CALLS, CALLS], [call(), CALLS, chunk({"content": ""})]),
    Case("duplicate_terminal", "openai-compat", [call(), CALLS, chunk(finish="length")], [call(), CALLS, STOP]),
    Case("duplicate_terminal", "anthropic", [*message(use()), message()[-1]], message(use())),
    Case("delta_after_terminal", "openai", [call(), CALLS, HELLO], [HELLO, call(), CALLS]),
    Case("delta_after_terminal", "openai-compat", [call(), CALLS, frag(" ")], [call(), frag(" "), CALLS]),
    Case("delta_after_terminal", "anthropic", message([*use(), use()[1]]), message(use())),
    Case("delta_after_terminal", "anthropic", [*message(use())[:-1], BEHIND, *message()[-1:]], message(use())),
    Case(
        "delta_after_terminal",
        "anthropic",
        [*message(stop=None), *message(use(), end=False)[1:]],
        [*message(use())],
        "unknown",
    ),
    Case("missing_events", "openai", [call(), CALLS], [call(), CALLS, "[DONE]"], count=3),
    Case("malformed_json", "openai", [call('{"city": "Be'), CALLS], [call(), CALLS]),
    Case("malformed_json", "openai", [call(""), CALLS], [call(""), frag(BERGEN), CALLS]),
    Case("malformed_json", "openai", [call({"city": "Bergen"}), CALLS], [call(), CALLS]),
    Case("malformed_json", "openai", ["{not json", HELLO, STOP], [HELLO, STOP, "[DONE]"]),
    Case("trailing_json", "openai", [call(BERGEN + BERGEN), CALLS], [call(BERGEN + " \n"), CALLS]),
    Case(
        "duplicate_key",
        "openai",
        [call('{"city": "a", "c\\u0069ty": "b"}'), CALLS],
        [call('{"city": "a", "City": 1}', name="any"), CALLS],
    ),
    Case(
        "non_finite_number",
        "openai",
        [call('{"x": NaN}', name="any"), CALLS],
        [call('{"x": "NaN"}', name="any"), CALLS],
    ),
    Case(
        "non_finite_number",
        "openai",
        [call('{"x": 1e999}', name="any"), CALLS],
        [call('{"x": 1e300}', name="any"), CALLS],
    ),
    Case(
        "invalid_unicode",
        "openai",
        [call('{"x": "\\ud800"}', name="any"), CALLS],
        [call('{"x": "\\ud83d\\ude00"}', name="any"), CALLS],
    ),
    Case(
        "invalid_unicode",
        "openai",
        [call('{"x": "\\ud800", "x": 1}', name="any"), CALLS],
        [call('{"x": "\\\\ud800"}', name="any"), CALLS],
    ),
    Case(
        "non_object_arguments",
        "openai",
        [call("[1]", name="any"), CALLS],
        [call('{"a": [1]}', name="any"), CALLS],
    ),
    Case("unknown_tool", "openai", [call(name="Weather"), CALLS], [call(), CALLS]),
    Case("unsupported_schema", "openai", [call("{}", name="bad"), CALLS], [call("{}", name="any"), CALLS]),
    Case("schema_invalid", "openai", [call('{"city": 1}'), CALLS], [call('{"city": "1"}'), CALLS]),
    Case(
        "duplicate_call_id",
        "openai",
        [call(), call(index=1), CALLS],
        [call(), call(index=1, ident="c2"), CALLS],
    ),
    Case(
        "multiple_choices",
        "openai",
        [call(), call(ident="c2", choice=1), CALLS, chunk(finish="tool_calls", choice=1)],
        [call(), CALLS],
    ),
    Case(
        "unknown_event",
        "openai",
        [call(), json.dumps({"type": "surprise"}), CALLS],
        [HELLO, json.dumps({"type": "surprise"}), STOP],
    ),
    Case(
        "unknown_event",
        "openai",
        [call(), chunk({"tool_patch": {"x": 1}}), CALLS],
        [call(), chunk({"mood": "good"}), CALLS],
    ),
    Case(
        "unknown_event",
        "anthropic",
        message(use(), [{"type": "sparkle"}]),
        message(use(), [{"type": "ping"}]),
    ),
    Case(
        "provider_error",
        "openai",
        [call(), CALLS, json.dumps({"error": {"type": "server_error"}})],
        [call(), CALLS, "[DONE]"],
        "failed",
    ),
    Case(
        "provider_error",
        "anthropic",
        message(use(), [{"type": "error", "error": {"type": "overloaded_error"}}]),
        message(use()),
        "failed",
    ),
    Case(
        "provider_error",
        "openai-compat",
        [HELLO, chunk(finish="error")],
        [HELLO, chunk(finish="eos")],
        "failed",
    ),
    Case("identity_collision", RESPONSES, response(use_of(), use_of(ident="r2")), response(use_of(), use_of(1, "r2"))),
    Case("missing_slot", RESPONSES, response(use_of()[1:3], use_of(1)), response(use_of(1))),
    Case("missing_identity", RESPONSES, response(use_of(ident="")), response(use_of())),
    Case("missing_events", RESPONSES, response(use_of())[:2] + response(use_of())[3:], response(use_of())),
    Case(
        "missing_events",
        RESPONSES,
        response(use_of(), last=final(use_of(), use_of(1, "r2"))),
        response(use_of(), last=final(use_of())),
    ),
    Case("missing_terminal", RESPONSES, response(use_of()[:-1]), response(use_of())),
    Case("missing_terminal", RESPONSES, response(use_of())[:-1], response(use_of()), "unknown"),
    Case(
        "wrong_terminal_reason", RESPONSES, response(use_of(), last=CUT), response(responses_events.message(), last=CUT)
    ),
    Case("duplicate_terminal", RESPONSES, response(use_of(), last=final()) + late(6, final()), response(use_of())),
    Case("delta_after_terminal", RESPONSES, response(use_of()) + late(6, use_of()[1]), response(use_of())),
    Case("unknown_tool", RESPONSES, response(responses_events.whole(0, CUSTOM)), response(use_of())),
    Case("unknown_event", RESPONSES, response(use_of(), NEW), response(responses_events.message(), NEW)),
    Case("provider_error", RESPONSES, response(use_of()) + late(6, ERROR), response(use_of()), "failed"),
    Case("too_large", "openai", [call(deep(65), name="any"), CALLS], [call(deep(64), name="any"), CALLS]),
    Case(
        "too_large",
        "openai",
        [call('{"a": "' + "x" * 90 + '"}', name="any"), CALLS],
        [call('{"a": "' + "x" * 80 + '"}', name="any"), CALLS],
        limits=Limits(arguments_bytes=92),
    ),
    Case(
        "too_large",
        "openai",
        [chunk({"content": "é" * 26}), STOP],
        [chunk({"content": "é" * 25}), STOP],
        limits=Limits(turn_bytes=50),
    ),
]


def run(case: Case, events: list[str], count: int | None = None) -> Outcome:
    assembler = Assembler(profile=case.profile, tools=compile_toolset(case.tools), limits=case.limits)
    assembler.feed(0, events)
    return assembler.end(StreamEnd("eof", count=count))


def names(value: Case) -> str:
    return f"{value.code}-{value.profile}-{CASES.index(value)}"


@pytest.mark.parametrize("case", CASES, ids=names)
def test_the_trigger_is_found_and_nothing_runs(case: Case) -> None:
    outcome = run(case, case.events, case.count)
    assert case.code in {f.code for f in outcome.findings if f.severity == "error"}
    assert outcome.verdict == case.verdict
    assert outcome.blocks == ()
    assert outcome.calls == ()


@pytest.mark.parametrize("case", CASES, ids=names)
def test_the_near_miss_commits(case: Case) -> None:
    outcome = run(case, case.near, case.count)
    assert [f for f in outcome.findings if f.severity == "error"] == []
    assert outcome.verdict == "commit"


def test_every_code_has_a_case() -> None:
    assert {case.code for case in CASES} == set(get_args(GateCode))


def test_messages_hold_no_content() -> None:
    for case in CASES:
        for finding in run(case, case.events, case.count).findings:
            assert "Bergen" not in finding.message
