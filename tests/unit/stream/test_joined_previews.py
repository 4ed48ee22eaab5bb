"""Previews of several frames shown at once: consecutive deltas of a block become one."""

from __future__ import annotations

from turngate.domain.stream import Preview, joined


def test_consecutive_deltas_of_a_block_are_one() -> None:
    start, stop = Preview("text", "started", 0), Preview("text", "stopped", 0, 6)
    deltas = [Preview("text", "delta", 0, at, text) for at, text in ((0, "ab"), (2, "c"), (3, "def"))]
    assert joined([start, *deltas, stop]) == [start, Preview("text", "delta", 0, 0, "abcdef"), stop]


def test_of_a_call_the_last_byte_count_stays() -> None:
    counts = [Preview("tool_call", "delta", 1, call_id="c", name="n", byte_count=count) for count in (3, 9, 12)]
    assert joined(counts) == [counts[-1]]


def test_blocks_and_kinds_stay_apart() -> None:
    apart = [
        Preview("thinking", "delta", 0, 0, "a"),
        Preview("text", "delta", 1, 0, "b"),
        Preview("text", "delta", 2, 0, "c"),
        Preview("text", "stopped", 2, 1),
        Preview("text", "started", 3),
        Preview("text", "delta", 3, 0, "d"),
    ]
    assert joined(apart) == apart
    assert joined([]) == []
