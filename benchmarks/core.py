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
ROUNDS = 25


def per_event_us(events: int, *works: Callable[[], object]) -> list[float]:
    """Best of some rounds for each work, in microseconds of processor time an event.

    The works take turns, so that a busy machine slows all of them; a round repeats each for about 10,000 events.
    """
    best = [float("inf")] * len(works)
    repeat = max(1, 10_000 // events)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            gc.collect()
            begin = time.process_time()
            for _ in range(repeat):
                work()
            best[place] = min(best[place], (time.process_time() - begin) / repeat)
    return [seconds / events * 1e6 for seconds in best]


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

            floor, ours = per_event_us(len(events), bare, assembled)
            first = first or ours / floor
            size_bytes = sum(map(len, events)) // len(events)
            print(
                f"{profile:<16}{len(events):>8}{size_bytes:>7}{floor:>11.2f} us{ours:>7.2f} us"
                f"{ours / floor:>7.2f}{ours / floor / first:>6.2f}"
            )
    return 0
