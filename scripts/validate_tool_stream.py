#!/usr/bin/env python3
"""A second opinion on a recorded stream: may its tool calls be handed over?

Judges fixtures of the profiles openai, mistral and anthropic by the rules of `turngate conformance`, with the same JSON
report and the same exit codes, and shares no code with it. Standard library only, Python 3.11 or newer. Executes
nothing, opens no socket. Only status=pass, applicable=true and executable=true permit a hand-over.

usage: validate_tool_stream.py FILE... [--report json|text]       (- reads standard input)
exit:  0 pass, 1 fail, 2 not applicable, 3 unreadable, 64 wrong usage; of several files the worst: 3, 1, 2, 0
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NoReturn

from plain_gate.fixture import Report, failed, report_on

EXIT_OF_STATUS = {"pass": 0, "fail": 1, "not_applicable": 2}
EXIT_UNREADABLE = 3
EXIT_USAGE = 64
WORST_FIRST = (EXIT_UNREADABLE, 1, 2, 0)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def report_on_file(name: str) -> Report:
    """The report on one file; what is wrong with the file is a report too."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        return failed("unreadable", f"cannot read the file: {error.strerror or 'input error'}")
    return report_on(data)


def exit_of(report: Report) -> int:
    return EXIT_UNREADABLE if report.get("code") == "unreadable" else EXIT_OF_STATUS[report["status"]]


def as_text(name: str, report: Report) -> str:
    turn = report["turn"]
    lines = [f"{report['status']}  {name}  verdict={turn['verdict']} stop={turn['stop']} calls={len(report['calls'])}"]
    lines += [f"  call {call['slot']}  {call['name']}  id={call['id']}" for call in report["calls"]]
    for finding in report["findings"]:
        where = "".join(f"  {key}={finding[key]}" for key in ("slot", "eventIndex") if finding.get(key) is not None)
        lines.append(f"  {finding['severity']}  {finding['code']}  {finding['message']}{where}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = Parser(description="Judge recorded tool-call streams without turngate.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="fixtures; - is standard input")
    parser.add_argument("--report", choices=("json", "text"), default="text", help="json: one line a file")
    options = parser.parse_args(arguments)
    reports = [report_on_file(name) for name in options.files]
    for name, report in zip(options.files, reports, strict=True):
        print(json.dumps(report, separators=(",", ":")) if options.report == "json" else as_text(name, report))
    codes = {exit_of(report) for report in reports}
    return next(code for code in WORST_FIRST if code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
