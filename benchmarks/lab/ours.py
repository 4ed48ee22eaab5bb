"""turngate's column: each case through the stream core, and the tools called for what it hands over."""

from __future__ import annotations

from typing import Any

from benchmarks.lab import tools
from benchmarks.lab.cases import Case
from turngate.domain.stream import Assembler, StreamEnd, compile_toolset
from turngate.domain.stream.conformance import outcome_report


def run(case: Case) -> dict[str, Any]:
    """{ran, error}: the calls that ran and, where the turn was blocked, the codes of the findings."""
    tools.ran.clear()
    assembler = Assembler(
        profile=case.profile,
        tools=compile_toolset(tools.SCHEMAS),
        tool_choice="forced" if case.forced else None,
    )
    assembler.feed(0, case.events)
    outcome = assembler.end(StreamEnd("eof", count=len(case.events)))
    report: dict[str, Any] = outcome_report(outcome, assembler.normaliser)
    if report["status"] == "pass" and report["applicable"] and report["executable"]:
        for call in report["calls"]:
            tools.FUNCTIONS[call["name"]](**call["arguments"])
    codes = sorted({finding["code"] for finding in report["findings"] if finding["severity"] == "error"})
    return {"ran": [[name, arguments] for name, arguments in tools.ran], "error": ", ".join(codes) or None}
