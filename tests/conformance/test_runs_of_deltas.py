"""Events that only go on with a block are taken at once: the outcome is that of one event after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.domain.stream import Assembler, Limits, Outcome, StreamEnd, compile_toolset
from turngate.domain.stream.conformance import UnreadableFixture, read_fixture
from turngate.domain.stream.findings import UnknownNormaliser

FIXTURES = sorted(Path(__file__).with_name("fixtures").glob("*.json"))
TIGHT = Limits(turn_bytes=60, arguments_bytes=20)


def _judged(path: Path, size: int, limits: Limits, *, at_once: bool) -> tuple[Outcome, list[object]]:
    fixture = read_fixture(path.read_bytes())
    assembler = Assembler(
        profile=fixture.profile, tools=compile_toolset(fixture.tool_schemas), tool_choice=fixture.tool_choice,
        limits=limits,
    )  # fmt: skip
    if not at_once:
        assembler._continuation = None
    shown: dict[tuple[str, str, int], object] = {}
    events = fixture.events
    for at in range(0, len(events), size):
        for preview in assembler.feed(at, events[at : at + size]):
            key = (preview.kind, preview.phase, preview.block_index)
            shown[key] = f"{shown.get(key, '')}{preview.text}" if preview.text else preview
    return assembler.end(StreamEnd("eof", count=len(events))), [*shown.items()]


@pytest.mark.parametrize("size", [1, 3, 16, 10_000])
@pytest.mark.parametrize("limits", [Limits(), TIGHT], ids=["usual", "tight"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_run_of_deltas_is_what_its_events_are_one_by_one(path: Path, limits: Limits, size: int) -> None:
    try:
        expected = _judged(path, size, limits, at_once=False)
    except (UnreadableFixture, UnknownNormaliser):
        pytest.skip("no stream of a profile in this build")
    assert _judged(path, size, limits, at_once=True) == expected
