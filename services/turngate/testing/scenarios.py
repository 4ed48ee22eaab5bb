"""Thousands of small streams, from one seed: what every relay of every attempt says, in which frames, and how it ends.

The plan is a pure function of (seed, number, generation, relay): a disturbed run and an undisturbed one are told the
same, whatever becomes of their processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from turngate.schemas.stream import EndCause, Evidence
from turngate.testing.dialects import PROFILES, Call, Told, failure, told

KINDS: dict[str, int] = {
    "plain": 40,
    "disordered": 26,  # frames doubled, overlapping, out of order, and again after the end
    "interleaved": 6,  # its owner falls silent, and goes on writing between the frames of the replay
    "replayed": 6,  # cut without evidence, and a replay that samples differently
    "resolved": 3,  # cut without evidence, and an operator's word for it
    "failed_late": 6,  # an error behind the terminal; the next generation answers
    "endless": 5,  # a terminal, and no `end`
    "blocked": 4,  # a call that the gate refuses
    "cut": 2,  # the connection is known closed; the next generation answers
    "rejected": 2,  # refused by the provider before anything was said; the next generation answers
}
"""Kinds of streams and how often they come."""

WORDS = (
    "Bergen ", "is ", "mild, ", "and ", "Bodø ", "windy; ", "rain ", "later 🌧 ", "in ", "the west ", "東京 ", "dry. ",
    "\u0301", "\n", "20\u202f°C ",
)  # fmt: skip
EVENTS_A_FRAME_MAX = 3
PAUSE_MS = (5, 300)
LONG_PAUSE_MS = 500
CITIES = ("Oslo", "Bodø", "São Paulo", "東京")


@dataclass(frozen=True, slots=True)
class Step:
    """One frame. wait_ms: since the one before. first_seq, events: of an events frame.

    cause: of an `end`, with its count, status, class of error and evidence.
    """

    wait_ms: int
    frame: str
    first_seq: int = 0
    events: tuple[str, ...] = ()
    cause: EndCause = "eof"
    count: int | None = None
    status: int | None = None
    error_class: str | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """What one relay writes. then: what its provider's side does when these steps are written.

    `done`; `silent`, its lease runs out; `replay` or `resolve`, once the attempt is UNKNOWN; `silent_replay`, both, and
    then it writes `late` beside the replay's frames.
    """

    steps: tuple[Step, ...]
    then: str = "done"
    late: tuple[Step, ...] = ()


def kind_of(seed: int, number: int) -> str:
    """What kind of stream a number is."""
    return Random(f"{seed}/{number}/kind").choices(list(KINDS), list(KINDS.values()))[0]


def profile_of(number: int) -> str:
    return PROFILES[number % len(PROFILES)]


def plan(seed: int, number: int, generation: int, relay: int, *, long_frames: int = 0) -> RelayPlan:
    """What a relay of an attempt writes. long_frames: of a stream that goes on and on, how many frames."""
    random = Random(f"{seed}/{number}/{generation}/{relay}")
    profile = profile_of(number)
    kind = kind_of(seed, number) if (generation, relay) == (1, 1) and not long_frames else "plain"
    answer = _answer(
        random, f"{profile}-{number}-{generation}-{relay}", generation, long_frames, blocked=kind == "blocked"
    )
    events = told(profile, answer)
    if kind == "rejected":
        end = Step(20, "end", cause="http", count=0, status=429, error_class="rate_limit", evidence="rejected")
        return RelayPlan((Step(0, "begin"), end))
    if kind == "failed_late":
        events = (*events, failure(profile, answer))
    if kind in ("interleaved", "replayed", "resolved", "cut"):
        return _cut(random, kind, events)
    frames = _frames(random, events, 0)
    if long_frames:
        frames = [Step(LONG_PAUSE_MS, "events", step.first_seq, step.events) for step in frames]
    steps = [Step(0, "begin"), *frames]
    if kind == "endless" and profile != "gemini":  # its STOP need not be the last: only the end of the body says so
        return RelayPlan(tuple(steps), "silent")
    if kind == "disordered":
        steps = _disordered(random, steps, events)
    return RelayPlan((*steps, Step(_pause(random), "end", count=len(events)), *_again(random, kind, steps)))


def _answer(random: Random, handle: str, generation: int, long_frames: int, *, blocked: bool) -> Told:
    words = max(random.randint(2, 8), long_frames)
    text = tuple(random.choice(WORDS) for _ in range(words))
    thinking = tuple(random.choice(WORDS) for _ in range(random.choice((0, 0, 2))))
    call = None
    if blocked or random.random() < 0.3:
        arguments = f'{{"city": "{random.choice(CITIES)}"}}'
        at = random.randint(1, len(arguments) - 1)
        ident = f"c{random.randrange(16**8):08x}"
        call = Call(ident, "get_wether" if blocked else "get_weather", (arguments[:at], arguments[at:]))
    return Told(handle, generation, thinking, text, call)


def _cut(random: Random, kind: str, events: tuple[str, ...]) -> RelayPlan:
    """The stream without its last part, which always holds the terminal."""
    kept = random.randint(1, max(1, len(events) // 2))
    steps = (Step(0, "begin"), *_frames(random, events[:kept], 0))
    if kind == "interleaved":
        late = (*_frames(random, events[kept:], kept), Step(_pause(random), "end", count=len(events)))
        return RelayPlan(steps, "silent_replay", late)
    evidence: Evidence | None = "connectionClosed" if kind == "cut" else None
    end = Step(_pause(random), "end", cause="reset", count=kept, evidence=evidence)
    then = {"replayed": "replay", "resolved": "resolve", "cut": "done"}[kind]
    return RelayPlan((*steps, end), then)


def _frames(random: Random, events: tuple[str, ...], first: int) -> list[Step]:
    steps: list[Step] = []
    at = 0
    while at < len(events):
        size = random.randint(1, EVENTS_A_FRAME_MAX)
        steps.append(Step(_pause(random), "events", first + at, events[at : at + size]))
        at += size
    return steps


def _disordered(random: Random, steps: list[Step], events: tuple[str, ...]) -> list[Step]:
    """Every frame of it at least once, somewhere behind `begin`; some twice, some cut differently."""
    frames = steps[1:]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(events))
        frames.append(Step(_pause(random), "events", at, events[at : at + random.randint(1, 4)]))
    random.shuffle(frames)
    frames.insert(random.randint(0, len(frames)), steps[0])
    return [steps[0], *frames]


def _again(random: Random, kind: str, steps: list[Step]) -> tuple[Step, ...]:
    """What is written once more behind the end: it is late."""
    return tuple(random.choices(steps, k=random.randint(1, 2))) if kind == "disordered" else ()


def _pause(random: Random) -> int:
    return random.randint(*PAUSE_MS)
