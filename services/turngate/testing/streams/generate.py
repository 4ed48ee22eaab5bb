"""The mix of whole turns and of mutated ones, as fixtures."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from turngate.testing.streams.calls import TOOLS, Json
from turngate.testing.streams.chat import chat_stream
from turngate.testing.streams.messages import messages_stream
from turngate.testing.streams.mutations import MUTATIONS, odd_value

PROFILES = ("openai", "mistral", "anthropic")
CHOICES = (None, None, "forced", "auto", {"type": "function", "function": {"name": "now"}}, {"type": "auto"})
FAULTS = ("bad_checksum", "bad_frame", "cut_frame", "event_too_large", "invalid_unicode")


@dataclass(frozen=True, slots=True)
class Generated:
    """A fixture as bytes, and what was done to it: names of mutations, `bad arguments` among them."""

    number: int
    done: tuple[str, ...]
    fixture: bytes


def streams(profile: str, seed: int, count: int) -> Iterator[Generated]:
    """`count` fixtures of one of PROFILES. The same seed gives the same bytes, and a longer run begins alike."""
    for number in range(count):
        random = Random(f"{seed}/{profile}/{number}")  # each of its own: one more draw in one changes no other
        yield _generated(profile, number, random)


def _generated(profile: str, number: int, random: Random) -> Generated:
    bad = random.random() < 0.35
    wrong = 0.7 if bad else 0.0
    events = messages_stream(random, wrong) if profile == "anthropic" else chat_stream(profile, random, wrong)
    done = ["bad arguments"] if bad else []
    weights = [weight for weight, _ in MUTATIONS.values()]
    for name in random.choices(list(MUTATIONS), weights, k=random.choice([0, 0, 1, 1, 1, 2, 3])):
        if events:
            MUTATIONS[name][1](events, profile, random)
            done.append(name)
    fixture: Json = {"profile": profile, "tool_schemas": TOOLS}
    choice = random.choice(CHOICES)
    if choice is not None:
        fixture["tool_choice"] = choice
    if random.random() < 0.02:
        fixture["fault"] = random.choice(FAULTS)
        done.append("fault")
    fixture["events" if profile == "anthropic" else "chunks"] = events
    if random.random() < 0.04:  # anywhere, also in the tools' schemas
        fixture = copy.deepcopy(fixture)
        odd_value([fixture], profile, random)
        done.append("odd fixture")
    ascii_only = random.random() < 0.5 or "half a character" in done
    text = json.dumps(fixture, ensure_ascii=ascii_only, indent=1 if random.random() < 0.1 else None)
    return Generated(number, tuple(done), text.encode())
