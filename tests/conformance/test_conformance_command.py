"""`turngate conformance` as other systems see it: reports, exit codes, several files, standard input."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from turngate.cli.app import run_command_line

FIXTURES = Path(__file__).parent / "fixtures"

Run = Callable[..., tuple[int, list[dict[str, object]]]]


def path(name: str) -> str:
    return str(FIXTURES / name)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def conformance(*arguments: str) -> tuple[int, list[dict[str, object]]]:
        code = run_command_line(["conformance", *arguments, "--report", "json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return conformance


def codes(report: dict[str, object], severity: str = "error") -> list[object]:
    findings = cast("list[dict[str, object]]", report["findings"])
    return [finding["code"] for finding in findings if finding["severity"] == severity]


def test_a_fragmented_call_passes_with_its_exact_identity_and_arguments(run: Run) -> None:
    code, (report,) = run(path("chat-fragmented-call.json"))
    assert code == 0
    assert (report["status"], report["applicable"], report["executable"]) == ("pass", True, True)
    assert report["calls"] == [
        {
            "id": "call_7",
            "name": "forecast",
            "arguments": {"city": "Tromsø", "days": 3},
            "argumentsRaw": '{"city":"Tromsø","days":3}',
            "slot": "0/0",
        }
    ]
    assert report["turn"] == {
        "verdict": "commit",
        "stop": "tool_calls",
        "text": "",
        "reasoning": "",
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
    }
    assert report["findings"] == []
    assert report["normaliser"] == "openai@1"


def test_events_may_be_recorded_with_their_names_and_their_data_as_text(run: Run, tmp_path: Path) -> None:
    recorded = json.loads(Path(path("chat-fragmented-call.json")).read_bytes())
    plain = [event if isinstance(event, str) else json.dumps(event) for event in recorded["chunks"]]
    for chunks in (plain, [{"event": None, "data": text} for text in [*plain, "[DONE]"]]):
        file = tmp_path / "named.json"
        file.write_text(json.dumps({**recorded, "chunks": chunks}))
        code, (report,) = run(str(file))
        assert (code, report["findings"]) == (0, [])
    assert report["meta"] == {"case": "one call in five fragments"}
    assert len(str(report["fixtureDigest"])) == 64


def test_a_reused_slot_is_a_collision_and_runs_nothing(run: Run) -> None:
    code, (report,) = run(path("chat-reused-slot.json"))
    assert code == 1
    assert (report["status"], report["executable"], report["calls"]) == ("fail", False, [])
    assert codes(report) == ["identity_collision"]


def test_text_alone_is_not_applicable(run: Run) -> None:
    code, (report,) = run(path("chat-text-only.json"))
    assert code == 2
    assert (report["status"], report["applicable"], report["executable"]) == ("not_applicable", False, False)
    assert cast("dict[str, object]", report["turn"])["text"] == "Hei på deg"


@pytest.mark.parametrize(
    ("name", "code", "verdict", "stop", "finding"),
    [
        ("chat-no-finish.json", 1, "unknown", "unknown", "missing_terminal"),
        ("chat-forced-stop.json", 0, "commit", "tool_calls", None),
        ("chat-length-after-whole-call.json", 1, "blocked", "truncated", "wrong_terminal_reason"),
        ("compat-object-arguments.json", 0, "commit", "tool_calls", None),
        ("compat-no-index.json", 0, "commit", "tool_calls", None),
        ("messages-thinking-then-call.json", 0, "commit", "tool_calls", None),
        ("messages-overloaded-after-stop.json", 1, "failed", "error", "provider_error"),
        ("messages-refusal.json", 2, "commit", "filtered", None),
        ("unsupported-profile.json", 1, "unknown", "unknown", "unsupported_profile"),
        ("not-json.json", 3, "unknown", "unknown", "unreadable"),
        ("absent.json", 3, "unknown", "unknown", "unreadable"),
    ],
)
def test_verdict_and_exit_code(run: Run, name: str, code: int, verdict: str, stop: str, finding: str | None) -> None:
    exit_code, (report,) = run(path(name))
    turn = cast("dict[str, object]", report["turn"])
    assert (exit_code, turn["verdict"], turn["stop"]) == (code, verdict, stop)
    assert codes(report) == ([] if finding is None else [finding])


def test_integers_stay_exact(run: Run) -> None:
    _, (report,) = run(path("compat-object-arguments.json"))
    (call,) = cast("list[dict[str, object]]", report["calls"])
    assert call["arguments"] == {"n": 123456789012345678901234567890}
    assert "tolerated" in {f["severity"] for f in cast("list[dict[str, object]]", report["findings"])}


def test_several_files_give_a_line_each_and_the_worst_exit_code(run: Run) -> None:
    passing, failing = path("chat-fragmented-call.json"), path("chat-reused-slot.json")
    neutral, broken = path("chat-text-only.json"), path("not-json.json")
    code, reports = run(passing, broken, failing, neutral)
    assert [report["status"] for report in reports] == ["pass", "fail", "fail", "not_applicable"]
    assert code == 3
    assert run(passing, failing, neutral)[0] == 1
    assert run(passing, neutral)[0] == 2
    assert run(passing, passing)[0] == 0


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FIXTURES / "chat-fragmented-call.json").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, (report,) = run("-")
    assert (code, report["status"]) == (0, "pass")


def test_sse_bodies(run: Run) -> None:
    code, (report,) = run(path("chat-call.sse"), "--sse", "--profile", "openai", "--tools", path("tools.json"))
    assert (code, report["status"]) == (0, "pass")
    code, (report,) = run(path("chat-call.sse"), "--sse", "--profile", "openai")
    assert (code, codes(report)) == (1, ["unknown_tool"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x.json", "--report", "yaml"],
        ["x.json", "--sse"],
        ["x.json", "--profile", "openai"],
        ["x.json", "--tools", "t.json"],
        ["x.json", "--nonsense"],
    ],
)
def test_wrong_usage_exits_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["conformance", *arguments]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


def test_junit_counts_failures_and_skips(capsys: pytest.CaptureFixture[str]) -> None:
    files = [path(f"chat-{name}.json") for name in ("fragmented-call", "reused-slot", "text-only")]
    assert run_command_line(["conformance", *files, "--report", "junit"]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")


def test_the_text_report_names_codes_and_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["conformance", path("chat-reused-slot.json")]) == 1
    out = capsys.readouterr().out
    assert out.startswith("fail  ")
    assert "identity_collision" in out
    assert "slot=0/0" in out


def test_redact_writes_fixtures_that_are_judged_the_same(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "one.json"
    code, (before,) = run(path("chat-fragmented-call.json"), "--redact", str(out))
    again, (after,) = run(str(out))
    assert code == again == 0
    (old,), (new,) = (cast("list[dict[str, object]]", report["calls"]) for report in (before, after))
    assert (new["id"], new["name"], new["slot"]) == (old["id"], old["name"], old["slot"])
    assert new["argumentsRaw"] == '{"city":"xxxxx\u00f8","days":3}'
    assert "meta" not in after
    folder = tmp_path / "many"
    names = ["chat-reused-slot.json", "not-json.json", "chat-text-only.json"]
    assert run(*(path(name) for name in names), "--redact", str(folder))[0] == 3
    assert sorted(file.name for file in folder.iterdir()) == ["chat-reused-slot.json", "chat-text-only.json"]
    assert codes(run(str(folder / "chat-reused-slot.json"))[1][0]) == ["identity_collision"]
    assert "Hei" not in (folder / "chat-text-only.json").read_text()


def test_redact_says_what_it_could_not_write(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = tmp_path / "chat-text-only.json"
    same.write_bytes((FIXTURES / "chat-text-only.json").read_bytes())
    command = ["conformance", path("chat-text-only.json"), str(same), "--redact", str(tmp_path / "out")]
    assert run_command_line(command) == 3
    assert "cannot write" in capsys.readouterr().err


def test_explain_tells_each_slots_history_without_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["conformance", path("chat-reused-slot.json"), "--explain"]) == 1
    out = capsys.readouterr().out
    for line in (
        "slot 0/0  tool_call  forecast  id=call_a",
        "event 0: id call_a, name forecast",
        "event 0: unseen -> accumulating",
        "events 0 to 1: 2 pieces, 15 characters",
        "event 2: stop reason tool_calls, read as tool_calls",
        "event 2: accumulating -> terminal",
        "event 1: error identity_collision",
        "gate: blocked by identity_collision",
    ):
        assert line in out
    assert "city" not in out
    assert run_command_line(["conformance", path("messages-thinking-then-call.json"), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "gate: terminal -> validated" in out
    assert "slot 0/0  thinking" in out
    assert "town" not in out


def test_explain_leaves_a_machines_report_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["conformance", path("chat-reused-slot.json"), "--explain", "--report", "json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["status"] == "fail"
    assert "slot 0/0" in captured.err
    assert run_command_line(["conformance", path("unsupported-profile.json"), "--explain"]) == 1


def test_junit_stays_xml_whatever_a_file_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / 'a <b> & "c"\x01\udcff]]>.json'
    assert run_command_line(["conformance", str(odd), path("chat-text-only.json"), "--report", "junit"]) == 3
    suite = ElementTree.fromstring(capsys.readouterr().out)
    names = [case.get("name") or "" for case in suite.iter("testcase")]
    assert names[0].endswith('a <b> & "c"\ufffd\ufffd]]>.json')
    failures = [case.find("failure") for case in suite.iter("testcase")]
    assert failures[0] is not None
    assert failures[0].get("message") == "unreadable"
    assert failures[1] is None
    assert len(list(suite.iter("skipped"))) == int(suite.get("skipped") or 0) == 1
