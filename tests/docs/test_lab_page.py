"""The lab's page shows the corpus of today and what turngate does with it today. Needs no library of the lab."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).resolve().parents[2]

if TYPE_CHECKING:
    from benchmarks.lab.cases import Case

Rows = dict[str, dict[str, str]]
ROW = re.compile(r"(?m)^\| (.*) \|$")
TABLE = re.compile(r"(?m)(?:^\|.*\|\n)+")


@pytest.fixture(autouse=True)
def _root_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`benchmarks` lies in the checkout and is not installed."""
    monkeypatch.syspath_prepend(str(ROOT))


def tables(heading: str) -> list[Rows]:
    """The page's tables whose first column is named so: first cell without backticks -> {column: cell}."""
    found = []
    for block in TABLE.findall((ROOT / "docs" / "lab.md").read_text(encoding="utf-8")):
        head, _, *rows = [row.split(" | ") for row in ROW.findall(block)]
        if head[0] == heading:
            found.append({row[0].strip("`"): dict(zip(head, row, strict=True)) for row in rows})
    return found


def on_the_page() -> tuple[Rows, Rows]:
    """The rows of the good cases and of the bad ones."""
    good, bad = tables("these calls must run"), tables("nothing may run")
    assert len(good) == len(bad) == 2
    return good[0] | good[1], bad[0] | bad[1]


def cases() -> list[Case]:
    from benchmarks.lab.corpus import corpus

    return corpus()


def test_the_page_lists_the_corpus_in_its_order_with_its_reasons() -> None:
    good, bad = on_the_page()
    assert [(name, row["what it holds"]) for name, row in good.items()] == [(c.name, c.why) for c in cases() if c.good]
    assert [(name, row["why"]) for name, row in bad.items()] == [(c.name, c.why) for c in cases() if not c.good]


def test_the_corpus_is_large_and_each_case_has_a_name_and_a_reason() -> None:
    every = cases()
    assert len(every) >= 40
    assert len({case.name for case in every}) == len(every)
    assert [case.name for case in every if not case.why or not case.events] == []
    assert [case.name for case in every if case.calls and not case.good] == []


def test_our_column_is_what_turngate_does_now() -> None:
    from benchmarks.lab.page import OURS, mark
    from benchmarks.lab.run import our_column

    good, bad = on_the_page()
    ours = our_column(cases())
    assert {name: row[OURS] for name, row in (good | bad).items()} == {case.name: mark(case, ours) for case in cases()}


def test_turngate_runs_every_good_case_and_no_bad_one() -> None:
    good, bad = on_the_page()
    assert {row["turngate"] for row in good.values()} == {"right"}
    assert {row["turngate"] for row in bad.values()} == {"refused"}


def test_the_summary_counts_the_tables() -> None:
    (totals,) = tables("library")
    for heading, word, column in (
        ("these calls must run", "right", "good, right"),
        ("nothing may run", "**ran**", "bad, executed"),
    ):
        apis = dict(zip(("Chat Completions", "Anthropic Messages"), tables(heading), strict=True))
        for library in totals:
            for api, rows in apis.items():
                cells = [row[library] for row in rows.values() if library in row]
                shown = _total(totals[library], api, column)
                assert shown == (f"{cells.count(word)} of {len(rows)}" if cells else "–"), (library, api)


def _total(row: dict[str, str], api: str, column: str) -> str:
    return row[f"{api}: {column}"]


def test_each_fixture_of_the_two_apis_is_in_the_corpus_or_left_out_with_a_reason() -> None:
    from benchmarks.lab import recorded

    names = {path.stem for path in recorded.FIXTURES.glob("*.json")}
    names = {name for name in names if name.startswith(("chat-", "compat-", "messages-"))}
    assert names == recorded.GOOD.keys() | recorded.BAD.keys() | recorded.LEFT_OUT.keys()
    (left_out,) = tables("fixture")
    assert left_out.keys() == recorded.LEFT_OUT.keys()


def test_a_library_that_runs_tools_side_by_side_is_right_in_any_order() -> None:
    from benchmarks.lab.cases import good
    from benchmarks.lab.page import Column, mark

    case = good("x", "openai", ["{}"], [("now", {}), ("forecast", {"city": "Oslo"})], "two calls")

    def marked(*ran: tuple[str, object], error: str | None = None) -> str:
        return mark(case, Column("x", "", "", {"x": {"ran": [list(call) for call in ran], "error": error}}))

    assert marked(("forecast", {"city": "Oslo"}), ("now", {})) == "right"
    assert marked(("forecast", {"city": "Oslo"}), ("now", {}), error="ValueError") == "failed"
    assert marked(("forecast", {"city": "Bodo"}), ("now", {})) == "other arguments"
    assert marked(("now", {})) == "other calls"
    assert marked(error="ValueError") == "failed"
