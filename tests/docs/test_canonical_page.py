"""The page on canonical events: its example passes, its tables name everything the code knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from turngate.domain.adapters.canonical import normaliser_tables as tables
from turngate.domain.stream.conformance import judge_fixture, read_fixture

if TYPE_CHECKING:
    from conftest import Fence

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/canonical.md"


def test_the_example_passes_and_uses_every_kind_of_operation(fences: list[Fence]) -> None:
    (example,) = [fence.text for fence in fences if fence.page == PAGE and fence.name == "stream.json"]
    report = judge_fixture(read_fixture(example.encode()))
    assert (report["status"], report["executable"], report["findings"]) == ("pass", True, [])
    used = {key for event in json.loads(example)["events"] for key in event} & tables.OPERATIONS
    assert used == tables.OPERATIONS - {"error"}


def test_the_tables_name_every_word_and_bound() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    said = set(re.findall(r"`(\w+)`", text))
    members = set().union(*tables.MEMBERS.values())
    words = {*tables.IDENTITY, *tables.PLACE, *tables.OPERATIONS, *members, *tables.STOPS, *tables.ERROR_CLASSES}
    assert {*words, *tables.KINDS} - said == set()
    for name in ("choice", "blockIndex", "deltaSeq"):
        least, greatest = tables.BOUNDS[name]
        assert re.search(rf"\| `{name}` \|.*{least} to {greatest}", text), name
    assert f"up to {tables.WINDOW_EVENTS} ahead" in text
    assert f"1 to {tables.HANDLE_CHARACTERS_MAX} characters" in text
