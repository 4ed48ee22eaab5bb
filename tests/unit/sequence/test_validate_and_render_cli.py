"""`turngate validate` and `turngate render`: reports, exit codes, exact bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turngate.cli.app import run_command_line
from turngate.schemas.codec import encode
from turngate.schemas.sequence import sequence_digest

READY = {"profile": "openai", "messages": [{"role": "user", "content": "hi"}]}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WAITING = {"profile": "openai", "messages": [*READY["messages"], {"role": "assistant", "tool_calls": [CALL]}]}
REJECTED = {"profile": "openai", "messages": [{"role": "user", "content": ""}]}


@pytest.fixture
def put(tmp_path: Path) -> Any:
    def write(name: str, value: object) -> str:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


def reports(capsys: Any, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = run_command_line(["validate", *arguments, "--report", "json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("value", "verdict", "code"), [(READY, "READY", 0), (REJECTED, "REJECTED", 1), (WAITING, "WAITING", 2)]
)
def test_exit_codes(put: Any, capsys: Any, value: object, verdict: str, code: int) -> None:
    exit_code, (report,) = reports(capsys, put("a.json", value))
    assert (exit_code, report["verdict"], report["profile"]) == (code, verdict, "openai")


def test_several_files_answer_in_order_and_the_worst_decides(put: Any, capsys: Any) -> None:
    names = [put("a", READY), put("b", b"\xff"), put("c", {**READY, "profile": "none"}), put("d", WAITING)]
    code, found = reports(capsys, *names, "missing.json")
    assert code == 3
    assert [one.get("code") for one in found] == [None, "unreadable", "unsupported_profile", None, "unreadable"]
    assert [one.get("status") for one in found] == [None, "fail", "fail", None, "fail"]
    assert reports(capsys, names[0], names[2])[0] == 1
    assert reports(capsys, names[0], names[3])[0] == 2


def test_profile_and_repair_options(put: Any, capsys: Any) -> None:
    bare = put("bare.json", WAITING["messages"])
    assert reports(capsys, bare)[1][0]["code"] == "unreadable"
    assert reports(capsys, bare, "--profile", "openai-chat")[1][0]["profile"] == "openai"
    code, (report,) = reports(capsys, bare, "--profile", "openai", "--repair", "placeholder")
    assert (code, [finding["severity"] for finding in report["findings"]]) == (0, ["repaired"])


SAID = '{"role": "user", "content": "hi"}'


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "5",
        f'{{"profile": "openai", "messages": [{SAID}], "messages": [{SAID}]}}',
        '{"profile": "openai", "messages": [{"role": "user", "content": "", "content": "hi"}]}',
        f'{{"profile": "anthropic", "messages": [{SAID}], "tools": {{"input": {{"type": "object"}}, "input": {{}}}}}}',
        f'{{"profile": "openai-responses", "input": [{SAID[:-1]}, "role": "user"}}]}}',
        f'{{"profile": "openai", "messages": [{SAID}], "temperature": NaN}}',
        f'{{"profile": "openai", "messages": [{SAID}], "temperature": -Infinity}}',
        f'{{"profile": "openai", "messages": [{SAID}], "system": 5}}',
        f'{{"profile": "openai", "messages": [{SAID}], "tools": "f"}}',
    ],
)
def test_what_has_no_one_reading_is_unreadable(put: Any, capsys: Any, text: str) -> None:
    code, (report,) = reports(capsys, put("a.json", text.encode()))
    assert (code, report["code"]) == (3, "unreadable")


def test_an_empty_list_is_unreadable_under_any_profile(put: Any, capsys: Any) -> None:
    assert reports(capsys, put("a.json", b"[]"), "--profile", "openai")[0] == 3


def test_a_sequence_with_a_doubled_key_is_unreadable(talk: Any, put: Any, capsys: Any) -> None:
    data = encode(talk("anthropic").golden().sequence())
    assert reports(capsys, put("once", data))[0] == 0
    code, (report,) = reports(capsys, put("twice", b'{"model":"other",' + data[1:]))
    assert (code, report["code"]) == (3, "unreadable")


@pytest.mark.parametrize(
    "arguments",
    [["validate"], ["validate", "x", "--report", "xml"], ["validate", "x", "--repair", "all"], ["render", "x"]],
)
def test_usage_errors(arguments: list[str], capsys: Any) -> None:
    assert run_command_line(arguments) == 64


def test_a_sequence_is_judged_and_rendered_to_the_byte(talk: Any, put: Any, capfdbinary: Any) -> None:
    one = talk("anthropic").golden()
    file, tools = put("s.json", encode(one.sequence())), put("t.json", encode(one.toolset))
    assert run_command_line(["validate", file]) == 0
    capfdbinary.readouterr()
    assert run_command_line(["render", file, "--adapter", "anthropic@1", "--toolset", tools]) == 0
    assert capfdbinary.readouterr().out == one.body()
    assert run_command_line(["render", file, "--adapter", "anthropic", "--toolset", tools, "--manifest"]) == 0
    manifest = json.loads(capfdbinary.readouterr().out)
    assert manifest["requestBytes"] == len(one.body())
    assert run_command_line(["render", file, "--adapter", "none"]) == 64
    assert run_command_line(["render", file, "--adapter", "anthropic"]) == 2
    assert run_command_line(["render", tools, "--adapter", "anthropic"]) == 3


def test_nothing_is_rendered_of_an_invalid_or_waiting_sequence(talk: Any, put: Any, capfdbinary: Any) -> None:
    one = talk(tools=False)
    one.say("hi")
    one.answer(one.call("c1"))
    waiting = one.sequence()
    invalid = waiting.model_copy(update={"tool_edges": ()})
    for sequence, code in ((waiting, 2), (invalid, 1)):
        file = put("s.json", encode(sequence))
        assert run_command_line(["render", file, "--adapter", "openai-chat"]) == code
        assert capfdbinary.readouterr().out == b""


def test_a_kind_the_adapter_does_not_know_pauses(talk: Any, put: Any, capsys: Any) -> None:
    from turngate.domain.sequence import AssistantBlock

    one = talk("anthropic", tools=False)
    one.say("hi")
    one.answer(AssistantBlock("server_tool_call", data='{"type":"server_tool_use"}'), one.text("found"))
    one.say("and?")
    file = put("s.json", encode(one.sequence()))
    assert reports(capsys, file)[1][0]["verdict"] == "READY"
    code, (report,) = reports(capsys, file, "--profile", "openai")
    assert (code, report["verdict"], report["findings"][0]["code"]) == (2, "PAUSED", "unknown_kind")


def test_what_no_record_can_hold_has_its_own_code(talk: Any, put: Any, capsys: Any) -> None:
    one = talk(tools=False)
    one.say("hi")
    plain = json.loads(encode(one.sequence()))
    plain["blocks"][0]["kind"] = "hologram"
    assert reports(capsys, put("a", plain))[1][0]["findings"][0]["code"] == "unknown_kind"
    plain["blocks"][0].update(kind="text", content={"text": "\ud83d"})
    assert reports(capsys, put("b", plain))[1][0]["findings"][0]["code"] == "invalid_unicode"
    sequence = one.sequence().model_copy(update={"adapter": "later@7"})
    sequence = sequence.model_copy(update={"sequence_digest": sequence_digest(sequence)})
    assert reports(capsys, put("c", encode(sequence)))[1][0]["code"] == "unsupported_profile"
