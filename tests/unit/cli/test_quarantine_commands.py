"""`turngate quarantine`: what it lists, shows, exports and judges again, from a dump of topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from turngate.cli.app import run_command_line
from turngate.cli.audit_input import Collected, write_dump
from turngate.domain.audit import entry_of
from turngate.schemas.base import Record
from turngate.schemas.codec import encode
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX, Origin, Quarantined, payload_of
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest

SECRET = "Zanzibar"
SCHEMA = json.dumps({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})
TOOL = ToolDeclaration(name="forecast", input_schema=SCHEMA, side_effects="read")
TOOLSET = Toolset(tenant="acme", tools=(TOOL,), toolset_digest=toolset_digest("acme", (TOOL,)))

Run = Callable[..., tuple[int, str, str]]


def manifest(operation: str) -> DispatchManifest:
    zero = "0" * 64
    plain = DispatchManifest(
        operation_id=operation, tenant="acme", conversation="c1", conversation_revision=1, sequence_digest=zero,
        adapter="openai-chat", adapter_digest=zero, normaliser="openai@1", profile="openai", provider="p", model="m",
        toolset_digest=TOOLSET.toolset_digest, policy_digest=zero, path="/", request_digest=zero, request_bytes=1,
        token_count=1, max_output_tokens=1, manifest_digest=zero, created_at_ms=0,
    )  # fmt: skip
    return plain.model_copy(update={"manifest_digest": manifest_digest(plain)})


def chat_events(*pieces: str, name: str = "forecast") -> list[str]:
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    deltas: list[dict[str, object]] = [{"tool_calls": [first]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    chunks = [{"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return [json.dumps(chunk) for chunk in chunks]


def frames(operation: str, events: Sequence[str], conversation: str = "c1", first: int = 0) -> list[Record]:
    common = {"tenant": "acme", "conversation": conversation, "operation_id": operation, "generation": 1, "relay": 1}
    half = len(events) // 2
    return [
        BeginFrame.model_validate(
            {**common, "profile": "openai", "normaliser": "openai@1", "owner": "d-0", "boot": 1,
             "manifest_digest": manifest(operation).manifest_digest}
        ),
        EventsFrame.model_validate({**common, "profile": "openai", "first_seq": first, "events": tuple(events[:half])}),
        EventsFrame.model_validate(
            {**common, "profile": "openai", "first_seq": first + half, "events": tuple(events[half:])}
        ),
    ]  # fmt: skip


class Log:
    """Topics in the making."""

    def __init__(self) -> None:
        self.found = Collected()
        self.add("toolsets", "acme", encode(TOOLSET))

    def add(self, topic: str, key: str, value: bytes, time_ms: int = 1_000) -> None:
        self.found.committed.append(entry_of(topic, 0, len(self.found.committed), time_ms, key, value))

    def set_aside(
        self, reason: str, key: str, values: Sequence[bytes], *, operation: str | None = None,
        call_key: str | None = None, start: int = 0, time_ms: int = 1_000,
    ) -> None:  # fmt: skip
        for offset, value in enumerate(values, start):
            kept = Quarantined(
                reason=reason, origin=Origin(topic="stream-events", partition=0, offset=offset), key=key,
                operation_id=operation, generation=None if operation is None else 1,
                relay=None if operation is None else 1, call_key=call_key, payload=payload_of(value),
            )  # fmt: skip
            self.add("quarantine", key, encode(kept), time_ms)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.add("manifests", "acme/c1", encode(manifest("op-1")))
    blocked = frames("op-1", chat_events('{"city":"' + SECRET, '","days":', "3", "} trailing"))
    log.set_aside("trailing_json", "acme/c1", [encode(frame) for frame in blocked], operation="op-1", time_ms=2_000)
    result = json.dumps({"schema": "ToolResult.v1", "callId": "call_9", "content": SECRET}).encode()
    log.set_aside("late_result", "acme/c2", [result], call_key="acme/c2/3/call_9", start=40)
    late = [encode(frame) for frame in frames("op-2", chat_events('{"city":"x"}'), "c3", 5)[1:]]
    log.set_aside("late_relay", "other/c3", late, operation="op-2", start=60, time_ms=3_000)
    log.set_aside("late_relay", "other/c3", late[:1], operation="op-2", start=60, time_ms=3_500)  # written twice
    return log


@pytest.fixture
def run(log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def quarantine(*words: str) -> tuple[int, str, str]:
        write_dump(tmp_path / "dump", log.found)
        code = run_command_line(["quarantine", *words, "--dump", str(tmp_path / "dump")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return quarantine


def ident_of(run: Run, reason: str) -> str:
    code, out, _ = run("list", "--reason", reason, "--report", "json")
    assert code == 0
    (row,) = map(json.loads, out.splitlines())
    return str(row["id"])


def test_list_groups_by_relay_and_reason_the_newest_first(run: Run) -> None:
    code, out, _ = run("list", "--report", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["reason"], row["tenant"], row["conversation"], row["records"]) for row in rows] == [
        ("late_relay", "other", "c3", 2), ("trailing_json", "acme", "c1", 3), ("late_result", "acme", "c2", 1),
    ]  # fmt: skip
    assert rows[1]["operation"] == "op-1"
    assert (rows[1]["generation"], rows[1]["relay"], rows[1]["time"]) == (1, 1, "1970-01-01T00:00:02+00:00")
    assert rows[2]["operation"] == "acme/c2/3/call_9"


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (["--tenant", "acme"], {"trailing_json", "late_result"}),
        (["--tenant", "acme", "--conversation", "c2"], {"late_result"}),
        (["--reason", "late_relay"], {"late_relay"}),
        (["--limit", "1"], {"late_relay"}),
        (["--tenant", "nobody"], set()),
    ],
)
def test_list_filters(run: Run, words: list[str], reasons: set[str]) -> None:
    _, out, err = run("list", *words, "--report", "json")
    assert {json.loads(line)["reason"] for line in out.splitlines()} == reasons
    assert ("2 older ones" in err) == ("--limit" in words)
    _, table, _ = run("list", *words)
    assert all(reason in table for reason in reasons)
    assert SECRET not in table


def test_show_says_what_was_found_and_redacts(run: Run) -> None:
    code, out, err = run("show", ident_of(run, "trailing_json"))
    assert code == 0
    for line in ("reason: trailing_json", "operation: op-1", "generation: 1", "relay: 1", "normaliser: openai@1"):
        assert line in out
    assert "finding codes: trailing_json" in out
    assert "stream-events 0:1, " in out
    assert "forecast" in out
    assert SECRET not in out + err
    assert "trailing " not in out.partition("stream-events 0:0")[2]
    assert "quarantine_shown_raw" not in err


def test_show_raw_shows_the_bytes_and_is_logged_without_them(run: Run) -> None:
    code, out, err = run("show", "op-1", "--raw")
    assert code == 0
    assert SECRET in out
    (line,) = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert line["event"] == "quarantine_shown_raw"
    assert line["user"]
    assert (line["tenant"], line["conversation"], line["operation"], line["records"]) == ("acme", "c1", "op-1", 3)
    assert SECRET not in err


def test_show_redacts_results_and_late_frames_too(run: Run) -> None:
    _, out, _ = run("show", ident_of(run, "late_result"))
    assert SECRET not in out
    assert "call_9" in out
    code, out, err = run("show", ident_of(run, "late_relay"))
    assert code == 0
    assert "finding codes: missing_events" in out
    assert "toolset was not found" in err


def test_export_reproduces_the_findings(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--redact"]):
        out = tmp_path / "fixture.json"
        code, said, err = run("export", "op-1", str(out), *words)
        assert code == 0
        assert "trailing_json" in said
        assert ("quarantine_exported_raw" in err) == (words == [])
        assert SECRET not in said + err
        assert (SECRET in out.read_text()) == (words == [])
        fixture = json.loads(out.read_bytes())
        assert fixture["tool_schemas"] == {"forecast": json.loads(SCHEMA)}
        assert fixture["meta"]["reason"] == "trailing_json"
        assert fixture["meta"]["complete"] is True
        assert run_command_line(["conformance", str(out), "--report", "json"]) == 1
        report = json.loads(capsys.readouterr().out)
        assert [finding["code"] for finding in report["findings"]] == ["trailing_json"]


def test_replay_says_what_the_verdict_is_now_and_that_nothing_changes(run: Run) -> None:
    code, out, _ = run("replay", "op-1")
    assert code == 1
    assert "verdict=blocked" in out
    assert "trailing_json" in out
    assert "nothing was changed" in out
    code, out, _ = run("replay", "op-1", "--normaliser", "openai-compat@1", "--report", "json")
    report = json.loads(out)
    assert (code, report["normaliser"], report["normaliserThen"]) == (1, "openai-compat@1", "openai@1")
    assert SECRET not in out
    for pin in ("openai@99", "openai@x", "morse"):
        code, _, err = run("replay", "op-1", "--normaliser", pin)
        assert code == 3
        assert "unsupported_profile" in err


def test_replay_of_a_case_that_a_newer_reading_passes(run: Run, log: Log) -> None:
    log.add("manifests", "acme/c1", encode(manifest("op-5")))
    good = [encode(frame) for frame in frames("op-5", chat_events('{"city":"x"}'))]
    log.set_aside("unknown_event", "acme/c1", good, operation="op-5", start=80)
    code, out, _ = run("replay", "op-5")
    assert code == 0
    assert "pass" in out


def test_the_end_that_was_set_aside_counts(run: Run, log: Log) -> None:
    events = frames("op-6", chat_events('{"city":"x"}'))
    end = EndFrame(tenant="acme", conversation="c1", operation_id="op-6", generation=1, relay=1, cause="eof", count=99)
    log.add("manifests", "acme/c1", encode(manifest("op-6")))
    log.set_aside("late", "acme/c1", [encode(frame) for frame in (*events, end)], operation="op-6", start=90)
    code, out, err = run("replay", "op-6")
    assert code == 1
    assert "missing_events" in out
    assert "not all frames" in err


def test_a_frame_cut_at_the_limit_is_said_to_be_missing(run: Run, log: Log) -> None:
    events = chat_events('{"city":"' + "q" * QUARANTINE_BYTES_MAX, '"}')
    log.add("manifests", "acme/c1", encode(manifest("op-7")))
    log.set_aside("schema_invalid", "acme/c1", [encode(f) for f in frames("op-7", events)], operation="op-7", start=99)
    code, out, err = run("show", "op-7")
    assert code == 0
    assert "1 of 3 records hold no whole frame" in err
    assert "qqqqqqqq" not in out


def test_what_is_not_there(run: Run, tmp_path: Path, log: Log) -> None:
    assert run("show", "ffffffffffff")[0] == 1
    assert run("export", ident_of(run, "late_result"), str(tmp_path / "x.json"))[0] == 1
    assert run("replay", ident_of(run, "late_result"))[0] == 3
    log.set_aside("late", "acme/c1", [b"x"], operation="op-1", start=70)
    code, _, err = run("show", "op-1")
    assert code == 1
    assert "ambiguous" in err
    assert run_command_line(["quarantine", "list"]) == 64
    assert run_command_line(["quarantine", "list", "--dump", str(tmp_path / "none")]) == 3
