"""A fixture with its runs of deltas taken at once, or event by event: what is shown and comes of it is the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from turngate.domain.stream import Assembler, Limits, StreamEnd, compile_toolset
from turngate.domain.stream.conformance import Fixture


def taken(fixture: Fixture, cuts: Sequence[int], limits: Limits, *, at_once: bool) -> str:
    """cuts: where frames begin and end. Gives a repr: in it a NaN is no other than itself. Raises UnknownNormaliser."""
    assembler = Assembler(
        profile=fixture.profile, tools=compile_toolset(fixture.tool_schemas), tool_choice=fixture.tool_choice,
        limits=limits,
    )  # fmt: skip
    if not at_once:
        assembler._continuation = None  # pyright: ignore[reportPrivateUsage]
    shown: dict[tuple[str, str, int], object] = {}
    for begin, end in pairwise(cuts):
        for preview in assembler.feed(begin, fixture.events[begin:end]):
            key = (preview.kind, preview.phase, preview.block_index)
            shown[key] = f"{shown.get(key, '')}{preview.text}" if preview.text else preview
    return repr((assembler.end(StreamEnd("eof", count=len(fixture.events))), shown))
