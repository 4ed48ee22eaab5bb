"""Providers' own message lists: read, judged, repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turngate.domain.sequence.imported import judge_history, load_json
from turngate.domain.sequence.imported.judge import PLACEHOLDER
from turngate.schemas.errors import InvalidRecord, Refused

Json = dict[str, Any]


def user(content: object = "hi") -> Json:
    return {"role": "user", "content": content}


def calls(*ids: str, content: str | None = None, arguments: str = "{}", name: str = "f") -> Json:
    entries = [{"id": one, "type": "function", "function": {"name": name, "arguments": arguments}} for one in ids]
    return {"role": "assistant", "content": content, "tool_calls": entries}


def result(call_id: str, content: object = "ok") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(*ids: str, before: tuple[Json, ...] = (), given: object = None) -> Json:
    blocks = [{"type": "tool_use", "id": one, "name": "f", "input": {} if given is None else given} for one in ids]
    return {"role": "assistant", "content": [*before, *blocks]}


def used(*ids: str, content: object = "ok") -> Json:
    return user([{"type": "tool_result", "tool_use_id": one, "content": content} for one in ids])


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def converse_use(*ids: str) -> Json:
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": i, "name": "f", "input": {}}} for i in ids]}


def converse_used(*ids: str, status: str = "success", content: tuple[Json, ...] = ({"text": "ok"},)) -> Json:
    blocks = [{"toolResult": {"toolUseId": i, "status": status, "content": list(content)}} for i in ids]
    return {"role": "user", "content": blocks}


ASK = {"role": "user", "content": [{"text": "hi"}]}
SAY = {"role": "assistant", "content": "yes"}
SIGNED = {"type": "thinking", "thinking": "", "signature": "s"}
PART = {"role": "user", "parts": [{"text": "hi"}]}


def gemini_calls(*names: str, **extra: str) -> Json:
    return {"role": "model", "parts": [{"functionCall": {"name": n, "args": {}}, **extra} for n in names]}


def gemini_answers(*names: str) -> Json:
    return {"role": "user", "parts": [{"functionResponse": {"name": n, "response": {"output": 1}}} for n in names]}


READY: list[tuple[str, Json]] = [
    (
        "openai",
        {"messages": [{"role": "system", "content": "S"}, user(), calls("a", "b"), result("b"), result("a"), user()]},
    ),
    ("openai", {"messages": [user(), calls("a"), result("a"), calls("a"), result("a")]}),
    ("openai", {"messages": [user([text("hi"), {"type": "image_url", "image_url": {"url": "u"}}])]}),
    ("openai", {"messages": [user(), SAY, user(), {"role": "assistant", "content": None, "refusal": "no"}, user()]}),
    ("openai", {"messages": [user(), calls("a", arguments='{"x": 1.0}'), result("a", "")]}),
    ("openai-compat", {"messages": [user(), calls("a", arguments=""), result("a")]}),
    ("anthropic", {"system": "S", "messages": [user(), use("a", "b"), used("b", "a")]}),
    ("anthropic", {"messages": [user(), use("a", before=(text("\n\n"),)), used("a", content="")]}),
    ("anthropic", {"messages": [user(), use("a"), user([*used("a")["content"], text("and")])]}),
    ("anthropic", {"messages": [user(), use("a", before=(SIGNED,)), used("a")], "thinking": {"type": "enabled"}}),
    ("anthropic", {"messages": [user(), user([text("more")])]}),
    (
        "anthropic",
        {"messages": [user(), {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "w"}]}]},
    ),
    ("mistral", {"messages": [user(), calls("a12345678"), result("a12345678")]}),
    ("gemini", {"contents": [PART, gemini_calls("f", "f"), gemini_answers("f", "f")]}),
    (
        "gemini",
        {"model": "gemini-3-pro", "contents": [PART, gemini_calls("f", thoughtSignature="x"), gemini_answers("f")]},
    ),
    ("bedrock", {"messages": [ASK, converse_use("a.b:c"), converse_used("a.b:c")]}),
    (
        "openai-responses",
        {
            "instructions": "S",
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "ok"},
            ],
        },
    ),
]

REJECTED: list[tuple[str, Json, str]] = [
    ("openai", {"messages": []}, "empty_content"),
    ("openai", {"messages": [user("")]}, "empty_content"),
    ("openai", {"messages": [user(), SAY]}, "role_order"),
    ("openai", {"messages": [user(), calls("a"), user("well?")]}, "missing_result"),
    ("openai", {"messages": [user(), calls("a", "b"), result("a")]}, "missing_result"),
    ("openai", {"messages": [user(), calls("a"), result("a"), result("a")]}, "duplicate_result"),
    ("openai", {"messages": [user(), calls("a"), result("a"), SAY, result("a")]}, "duplicate_result"),
    ("openai", {"messages": [user(), result("x"), user()]}, "orphan_result"),
    ("openai", {"messages": [user(), result("a"), calls("a")]}, "result_before_call"),
    ("openai", {"messages": [user(), calls("a"), user(), result("a")]}, "result_not_adjacent"),
    ("openai", {"messages": [user(), calls("a"), calls("b"), result("b"), result("a")]}, "result_not_adjacent"),
    ("openai", {"messages": [user(), calls("a"), {**result("a"), "name": "g"}]}, "result_mismatch"),
    ("openai", {"messages": [user(), calls("a", "a"), result("a")]}, "duplicate_call_id"),
    ("openai", {"messages": [user(), calls(""), result("")]}, "invalid_call_id"),
    ("openai", {"messages": [user(), calls("x" * 65), result("x" * 65)]}, "invalid_call_id"),
    ("openai", {"messages": [user(), calls("a", name="no good"), result("a")]}, "invalid_tool_name"),
    (
        "openai",
        {"messages": [user(), calls("a", arguments='{"p": "a.md", "c'), result("a"), user()]},
        "incomplete_arguments",
    ),
    ("openai", {"messages": [user(), calls("a", arguments=""), result("a")]}, "incomplete_arguments"),
    ("openai", {"messages": [user(), calls("a", arguments='{"a":1,"a":2}'), result("a")]}, "incomplete_arguments"),
    ("openai", {"messages": [user(), calls("a", arguments='{"a":NaN}'), result("a")]}, "incomplete_arguments"),
    ("openai", {"messages": [user(), calls("a", arguments="[]"), result("a")]}, "incomplete_arguments"),
    ("openai", {"messages": [user(), {"role": "system", "content": "late"}, user()]}, "system_not_first"),
    ("openai", {"messages": [{"role": "root", "content": "x"}, user()]}, "unknown_kind"),
    ("openai", {"messages": [user([{"type": "hologram"}])]}, "unknown_kind"),
    ("openai", {"messages": [user()], "tools": {f"t{i}": {} for i in range(129)}}, "too_large"),
    ("openai", {"messages": [user()], "tools": [{"function": {"name": "no good"}}]}, "invalid_tool_name"),
    ("openai", {"messages": [user("half \ud83d")]}, "invalid_unicode"),
    ("anthropic", {"messages": [user(), use("a"), used("a", content="price \ud83d")]}, "invalid_unicode"),
    ("anthropic", {"messages": [user(), use("a"), used("a", "a")]}, "duplicate_result"),
    ("anthropic", {"messages": [user(), use("a"), user("well?")]}, "missing_result"),
    (
        "anthropic",
        {"messages": [user(), use("a"), user([text("first"), *used("a")["content"]])]},
        "result_not_adjacent",
    ),
    ("anthropic", {"messages": [user(), use("a", "b"), used("a"), used("b")]}, "result_not_adjacent"),
    ("anthropic", {"messages": [user(), use("a"), used("a"), use("a"), used("a")]}, "duplicate_call_id"),
    ("anthropic", {"messages": [user(), use("functions.B:0"), used("functions.B:0")]}, "invalid_call_id"),
    ("anthropic", {"messages": [user(), use("a", given="{}"), used("a")]}, "incomplete_arguments"),
    (
        "anthropic",
        {"messages": [user(), use("a", before=({"type": "thinking", "thinking": "hm"},)), used("a")]},
        "missing_signature",
    ),
    ("anthropic", {"messages": [user(), use("a"), used("a")], "thinking": {"type": "enabled"}}, "missing_signature"),
    ("anthropic", {"messages": [user(" ")]}, "empty_content"),
    ("anthropic", {"messages": [user(), use("a"), used("a", content=[])]}, "empty_content"),
    ("anthropic", {"messages": [user([{"type": "tool_use", "id": "a", "name": "f", "input": {}}])]}, "role_spoof"),
    ("anthropic", {"messages": [user(), {"role": "system", "content": "x"}]}, "system_not_first"),
    ("anthropic", {"messages": [user([{"type": "hologram"}])]}, "unknown_kind"),
    ("mistral", {"messages": [user(), calls("call_abc"), result("call_abc")]}, "invalid_call_id"),
    ("mistral", {"messages": [user(), calls("a12345678"), result("a12345678"), user()]}, "role_order"),
    ("gemini", {"contents": [PART, gemini_calls("f", "f"), gemini_answers("f")]}, "missing_result"),
    ("gemini", {"contents": [PART, gemini_calls("f"), gemini_answers("f", "f")]}, "orphan_result"),
    (
        "gemini",
        {"model": "gemini-3-pro", "contents": [PART, gemini_calls("f"), gemini_answers("f")]},
        "missing_signature",
    ),
    ("bedrock", {"messages": [ASK, converse_use("a"), ASK]}, "missing_result"),
    ("bedrock", {"messages": [ASK, ASK]}, "role_order"),
    (
        "bedrock",
        {"messages": [ASK, converse_use("a"), converse_used("a", status="error", content=())]},
        "empty_content",
    ),
    ("openai-responses", {"input": [{"type": "function_call_output", "call_id": "a", "output": ""}]}, "orphan_result"),
]


@pytest.mark.parametrize(("profile", "history"), READY)
def test_ready(profile: str, history: Json) -> None:
    judged = judge_history(history, profile)
    assert (judged.candidate.verdict, judged.candidate.findings) == ("READY", ())


@pytest.mark.parametrize(("profile", "history", "code"), REJECTED)
def test_rejected(profile: str, history: Json, code: str) -> None:
    candidate = judge_history(history, profile).candidate
    assert candidate.verdict == "REJECTED"
    assert code in {finding.code for finding in candidate.findings}
    assert all(finding.model_dump_json() for finding in candidate.findings)


@pytest.mark.parametrize(
    ("profile", "history"),
    [
        ("openai", {"messages": [user(), calls("a", "b")]}),
        ("openai-chat", {"messages": [user(), calls("a")]}),
        ("anthropic", {"messages": [user(), use("a")]}),
        ("bedrock-converse", {"messages": [ASK, converse_use("a")]}),
        ("gemini", {"contents": [PART, gemini_calls("f")]}),
    ],
)
def test_calls_nothing_has_followed_wait(profile: str, history: Json) -> None:
    candidate = judge_history(history, profile).candidate
    assert (candidate.verdict, candidate.reason) == ("WAITING", "calls_open")


@pytest.mark.parametrize(
    ("profile", "history"),
    [
        ("openai", {"messages": [user(), calls("a", "b", "c"), result("c"), result("a"), user()]}),
        ("openai", {"messages": [user(), calls("a", "b", "c")]}),
        ("anthropic", {"messages": [user(), use("a", "b", "c"), used("a", "c")]}),
        ("anthropic", {"messages": [user(), use("a", "b", "c"), user("well?")]}),
    ],
)
def test_placeholders_stand_in_call_order_and_are_findings(profile: str, history: Json) -> None:
    judged = judge_history(history, profile, repair="placeholder")
    assert judged.candidate.verdict == "READY"
    made = [node for node in judged.nodes if node.text == PLACEHOLDER]
    assert [node.call_id for node in judged.nodes if node.is_result] == ["a", "b", "c"]
    assert all((node.role, node.status) == ("tool", "cancelled") for node in made)
    assert [finding.severity for finding in judged.candidate.findings] == ["repaired"] * len(made)
    assert {finding.code for finding in judged.candidate.findings} == {"missing_result"}


def test_repair_mends_nothing_else() -> None:
    history = {"messages": [user(), calls("a", arguments="{"), user()]}
    candidate = judge_history(history, "openai", repair="placeholder").candidate
    assert candidate.verdict == "REJECTED"
    assert {finding.severity for finding in candidate.findings} == {"error", "repaired"}


def test_findings_never_quote_content() -> None:
    history = {"messages": [user(""), calls("a", arguments="my-secret"), {"role": "my-secret"}]}
    for finding in judge_history(history, "openai").candidate.findings:
        assert "my-secret" not in finding.model_dump_json()


def test_doubled_keys_of_an_input_object_are_not_guessed_at() -> None:
    raw = json.dumps({"messages": [user(), use("a", given={"k": 1}), used("a")]}).replace('"k": 1', '"k": 1, "k": 2')
    loaded = load_json(raw.encode())
    assert isinstance(loaded, dict)
    found = judge_history(loaded, "anthropic").candidate.findings
    assert [finding.code for finding in found] == ["incomplete_arguments"]


@pytest.mark.parametrize("history", [{}, {"messages": "x"}, {"messages": ["x"]}])
@pytest.mark.parametrize("profile", ["openai", "anthropic", "mistral", "gemini", "bedrock", "openai-responses"])
def test_what_is_no_history_is_unreadable(profile: str, history: Json) -> None:
    with pytest.raises(InvalidRecord) as caught:
        judge_history(history, profile)
    assert caught.value.code == "unreadable"


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        judge_history({"messages": []}, "none")
    assert caught.value.code == "unsupported_profile"


FORMS = ("openai", "openai-compat", "mistral", "anthropic", "openai-responses", "gemini", "bedrock")


@pytest.mark.parametrize("profile", FORMS)
@pytest.mark.parametrize("system", [5, True, ["x"], [["x"]], {"text": "x"}])
def test_system_text_of_no_known_form_is_unreadable(profile: str, system: object) -> None:
    with pytest.raises(InvalidRecord) as caught:
        judge_history({"messages": [], "system": system}, profile)
    assert (caught.value.code, caught.value.path) == ("unreadable", "system")


@pytest.mark.parametrize("profile", FORMS)
@pytest.mark.parametrize("tools", [5, "f", ["f"], {"f": 5}, {"f": "{}"}, {"f": ["x"]}])
def test_tools_of_no_known_form_are_unreadable(profile: str, tools: object) -> None:
    with pytest.raises(InvalidRecord) as caught:
        judge_history({"messages": [], "tools": tools}, profile)
    assert (caught.value.code, caught.value.path) == ("unreadable", "tools")


@pytest.mark.parametrize(
    ("profile", "more"),
    [
        ("openai", {"system": "be kind", "tools": [{"type": "function", "function": {"name": "f"}}]}),
        ("anthropic", {"system": [{"type": "text", "text": "be kind"}], "tools": {"f": {}}}),
        ("bedrock", {"system": [{"text": "be kind"}], "tools": [{"toolSpec": {"name": "f"}}]}),
        ("gemini", {"systemInstruction": {"parts": [{"text": "be kind"}]}, "tools": [{"functionDeclarations": []}]}),
        ("openai-responses", {"instructions": [{"role": "system", "content": "be kind"}], "system": None}),
    ],
)
def test_the_forms_of_each_api_are_read(profile: str, more: Json) -> None:
    parts = [{"text": "hi"}]
    said = {"gemini": {"role": "user", "parts": parts}, "bedrock": {"role": "user", "content": parts}}
    history = {"messages": [said.get(profile, {"role": "user", "content": "hi"})], **more}
    assert judge_history(history, profile).candidate.verdict == "READY"
