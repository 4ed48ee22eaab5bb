"""The command: exit codes, both reports, a dump that reads back the same."""

from __future__ import annotations

import orjson
import typer
from typer.testing import CliRunner

from turngate.cli import audit as audit_cli
from turngate.cli import trace as trace_cli
from turngate.cli.audit_input import Collected, read_dump, write_dump
from turngate.schemas.turn import Turn


def app() -> typer.Typer:
    made = typer.Typer()
    audit_cli.register(made)
    trace_cli.register(made)
    return made


def dumped(story, folder) -> list[str]:
    log = story.log()
    found = Collected(list(log.entries()), [e for es in log.uncommitted.values() for e in es], dict(log.starts))
    write_dump(folder, found)
    lines = folder / "receive.log"
    lines.write_bytes(b"".join(orjson.dumps(plain_line(line)) + b"\n" for line in story.lines))
    return ["--dump", str(folder), "--receive-log", str(lines)]


def plain_line(line) -> dict[str, object]:
    return {
        "time": line.time_ms / 1000, "endpoint": line.endpoint, "method": line.method, "path": line.path,
        "bodySha256": line.body_sha256, "requestDigest": line.request_digest, "length": line.length,
        "idempotencyKey": line.idempotency_key, "operation": line.operation, "attemptGeneration": line.generation,
    }  # fmt: skip


def test_a_dump_reads_back_the_same(story, tmp_path):
    dumped(story, tmp_path)
    assert read_dump(tmp_path).log() == story.log()


def test_a_valid_dump_exits_0_and_says_so(story, tmp_path):
    arguments = ["audit", *dumped(story, tmp_path), "--expect-settled"]
    outcome = CliRunner().invoke(app(), arguments)
    assert outcome.exit_code == 0, outcome.output
    assert "nothing is refuted" in outcome.output
    report = orjson.loads(CliRunner().invoke(app(), [*arguments, "--report", "json"]).output)
    assert {one["status"] for one in report["invariants"]} == {"proved"}


def test_a_refuted_dump_exits_1_with_a_timeline_without_content(story, tmp_path):
    story.drop(story.find(Turn, revision=2))
    outcome = CliRunner().invoke(app(), ["audit", *dumped(story, tmp_path), "--expect-settled"])
    assert outcome.exit_code == 1
    assert "I3 refuted: revision 2 is missing below revision 3" in outcome.output
    assert "Find both things" not in outcome.output
    assert "result one" not in outcome.output


def test_unreadable_input_exits_3_and_no_input_64(story, tmp_path):
    run = CliRunner().invoke
    assert run(app(), ["audit", "--dump", str(tmp_path / "absent")]).exit_code == 3
    arguments = dumped(story, tmp_path)
    (tmp_path / "turns.jsonl").write_bytes(b"no json\n")
    assert run(app(), ["audit", *arguments]).exit_code == 3
    assert run(app(), ["audit"], env={"TURNGATE_KAFKA": None}).exit_code == 64


def test_a_receive_log_torn_by_a_crash_is_read_up_to_there(story, tmp_path):
    arguments = dumped(story, tmp_path)
    with (tmp_path / "receive.log").open("ab") as file:
        file.write(b'{"time": 1')
    assert CliRunner().invoke(app(), ["audit", *arguments, "--expect-settled"]).exit_code == 0


def test_trace_prints_the_events_of_one_conversation(story, tmp_path):
    event = story.event("length_notice", revision=4)
    story.add("trace", event)
    dumped(story, tmp_path)
    run = CliRunner().invoke
    outcome = run(app(), ["trace", "acme/chat-1", "--dump", str(tmp_path)])
    assert outcome.exit_code == 0
    assert [orjson.loads(line)["type"] for line in outcome.output.splitlines()] == ["length_notice"]
    assert run(app(), ["trace", "acme/other", "--dump", str(tmp_path)]).exit_code == 1
