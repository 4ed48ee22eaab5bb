"""The stream core per event, all checks on, against bare orjson.loads of the same bytes in the same run.

python -m benchmarks core
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import orjson

from benchmarks.streams import SHAPES, TOOLS
from turngate.domain.stream import Assembler, StreamEnd, compile_toolset

FRAME = 16
"""Events of a frame, as the dispatcher's relay coalesces them."""
SIZES = (500, 5_000, 50_000)
ROUNDS = 7


def per_event_us(events: int, work: Callable[[], object]) -> float:
    """Best of some rounds, in microseconds an event; each round repeats the work for at least 50 ms."""
    best = float("inf")
    repeat = max(1, 50_000 // events)
    for _ in range(ROUNDS):
        gc.collect()
        begin = time.perf_counter()
        for _ in range(repeat):
            work()
        best = min(best, (time.perf_counter() - begin) / repeat)
    return best / events * 1e6


def main() -> int:
    tools = compile_toolset(TOOLS)
    print(f"{'profile':<16}{'events':>8}{'bytes':>7}{'orjson.loads':>14}{'turngate':>10}{'ratio':>7}{'flat':>6}")
    for profile, shape in SHAPES.items():
        first = 0.0
        for size in SIZES:
            events = shape(size)
            frames = [(at, events[at : at + FRAME]) for at in range(0, len(events), FRAME)]

            def bare(events: list[str] = events) -> None:
                for raw in events:
                    orjson.loads(raw)

            def assembled(
                profile: str = profile, frames: list[tuple[int, list[str]]] = frames, n: int = len(events)
            ) -> None:
                assembler = Assembler(profile=profile, tools=tools)
                for first_seq, batch in frames:
                    assembler.feed(first_seq, batch)
                outcome = assembler.end(StreamEnd("eof", count=n))
                assert outcome.verdict == "commit", outcome.findings
                assert len(outcome.calls) == 2

            floor, ours = per_event_us(len(events), bare), per_event_us(len(events), assembled)
            first = first or ours / floor
            size_bytes = sum(map(len, events)) // len(events)
            print(
                f"{profile:<16}{len(events):>8}{size_bytes:>7}{floor:>11.2f} us{ours:>7.2f} us"
                f"{ours / floor:>7.2f}{ours / floor / first:>6.2f}"
            )
    return 0
