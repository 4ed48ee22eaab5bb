"""Events that only go on with a block are taken at once: the outcome is that of one event after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.domain.stream import Limits
from turngate.domain.stream.conformance import UnreadableFixture, read_fixture
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.testing.streams.runs import taken

FIXTURES = sorted(Path(__file__).with_name("fixtures").glob("*.json"))
TIGHT = Limits(turn_bytes=60, arguments_bytes=20)


@pytest.mark.parametrize("size", [1, 3, 16, 10_000])
@pytest.mark.parametrize("limits", [Limits(), TIGHT], ids=["usual", "tight"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_run_of_deltas_is_what_its_events_are_one_by_one(path: Path, limits: Limits, size: int) -> None:
    try:
        fixture = read_fixture(path.read_bytes())
        cuts = [*range(0, len(fixture.events), size), len(fixture.events)]
        expected = taken(fixture, cuts, limits, at_once=False)
    except (UnreadableFixture, UnknownNormaliser):
        pytest.skip("no stream of a profile in this build")
    assert taken(fixture, cuts, limits, at_once=True) == expected
