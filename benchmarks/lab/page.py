"""docs/lab.md, from what the libraries did. Nothing on the page is written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.lab import recorded
from benchmarks.lab.cases import Case

OURS = "turngate"
APIS = {"chat": "Chat Completions", "messages": "Anthropic Messages"}

HEAD = """\
# Who executes what it must not

{good} streams that are right and {bad} that are not, read by the accumulators people use today and by turngate's stream
core. Each side gets the same events, in the same order, over a connection that then closes properly. Tools are declared
to each library as its documentation declares them, and what it hands over is called as its documentation calls it: a
mark in the tables says whether the tool's function really ran, and with which arguments.

This page is written by one command, which sets up the libraries of `benchmarks/lab` in a folder of its own:

```bash
make lab
```

This run: {when}, {runtimes}.
"""

READING = """\
A good case is right where exactly its calls ran, with the arguments the model sent, and no error was reported.
A bad case counts as executed where anything ran at all, be it the first of two calls. Where a library hands over text
that its documented next step cannot parse, or a name that no tool has, nothing runs, and that counts as refused.

No bad case is one that nobody could tell. A delta repeated inside one connection, for one, looks like a model that said
it twice: the events carry no number, and turngate takes it too. (On turngate's topics each event has one, so a
redelivery there is dropped.) Where arguments break the schema, some libraries coerce by design, `"12"` to 12; that is
listed because what ran is not what the model wrote.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """What one library did. cases: name -> {ran: [[tool, arguments]], error}; a case it does not read is missing."""

    title: str
    versions: str
    how: str
    cases: Mapping[str, Mapping[str, Any]]


def calls_of(result: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, arguments) for name, arguments in result["ran"]]


def in_one_order(calls: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """By name and arguments: who runs the tools of a turn side by side promises no order."""
    return sorted(calls, key=lambda call: (call[0], json.dumps(call[1], sort_keys=True)))


def mark(case: Case, column: Column) -> str:
    """One cell. A good case: right, other arguments, other calls or failed; a bad one: refused or ran."""
    result = column.cases.get(case.name)
    if result is None:
        return "–"
    ran, wanted = in_one_order(calls_of(result)), in_one_order(case.calls)
    if not case.good:
        return "**ran**" if ran else "refused"
    if ran == wanted:
        return "failed" if result["error"] else "right"
    if ran and [name for name, _ in ran] == [name for name, _ in wanted]:
        return "other arguments"
    return "other calls" if ran else "failed"


def tally(cases: Sequence[Case], column: Column, api: str, *, good: bool) -> str:
    marks = [mark(case, column) for case in cases if case.api == api and case.good is good]
    wanted = "right" if good else "**ran**"
    return "–" if set(marks) == {"–"} else f"{marks.count(wanted)} of {len(marks)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def summary(cases: Sequence[Case], columns: Sequence[Column]) -> list[str]:
    head = ["library", *(f"{api}: {what}" for api in APIS.values() for what in ("good, right", "bad, executed"))]
    rows = [
        [column.title, *(tally(cases, column, api, good=good) for api in APIS for good in (True, False))]
        for column in columns
    ]
    return table(head, rows)


def _cases_of(api: str, cases: Sequence[Case], columns: Sequence[Column]) -> list[str]:
    here = [column for column in columns if any(case.api == api and case.name in column.cases for case in cases)]
    lines = []
    for good, heading in ((True, "these calls must run"), (False, "nothing may run")):
        rows = [
            [f"`{case.name}`", case.why, *(mark(case, column) for column in here)]
            for case in cases
            if case.api == api and case.good is good
        ]
        head = [heading, "what it holds" if good else "why", *(column.title for column in here)]
        lines += [f"## {APIS[api]}: {heading}", "", *table(head, rows), ""]
    return lines


def _shown(calls: list[tuple[str, Any]]) -> str:
    """Calls as code, less what UTF-8 cannot hold."""
    return ", ".join(f"`{name} {json.dumps(arguments, separators=(',', ':'))}`" for name, arguments in calls)


def _what_ran(cases: Sequence[Case], columns: Sequence[Column]) -> list[str]:
    rows = []
    for case in cases:
        by_calls: dict[str, list[str]] = {}
        for column in columns:
            if mark(case, column) in ("**ran**", "other arguments", "other calls"):
                by_calls.setdefault(_shown(calls_of(column.cases[case.name])), []).append(column.title)
        rows += [[f"`{case.name}`", calls, ", ".join(titles)] for calls, titles in by_calls.items()]
    return table(["case", "what ran", "with"], rows)


def page(cases: Sequence[Case], columns: Sequence[Column], when: str, runtimes: str) -> str:
    good = sum(case.good for case in cases)
    libraries = [column for column in columns if column.title != OURS]
    left_out = [[f"`{name}`", why] for name, why in recorded.LEFT_OUT.items()]
    ours = [
        OURS, "this checkout", "the calls of an outcome that is `pass`, `applicable` and `executable`, as `turngate "
        "conformance` reports it; a finding of severity `error` is a refusal",
    ]  # fmt: skip
    lines = [
        HEAD.format(good=good, bad=len(cases) - good, when=when, runtimes=runtimes),
        "## Summary", "", *summary(cases, columns), "", READING,
        "## How each library is used", "",
        *table(["column", "versions", "what counts as running"],
               [*([column.title, column.versions, column.how] for column in libraries), ours]), "",
        *(line for api in APIS for line in _cases_of(api, cases, columns)),
        "## What ran", "",
        "Of the bad cases what was executed, and of the good ones what ran instead of the right calls.", "",
        *_what_ran(cases, columns), "",
        "## What is left out", "",
        "Fixtures of `tests/conformance/fixtures` for the two APIs that say nothing about a library:", "",
        *table(["fixture", "why"], left_out),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
