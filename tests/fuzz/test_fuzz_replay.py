"""The fuzz targets over inputs that are the same at every run, and proof that each finds what it is for.

`make fuzz` runs the same targets under atheris, which looks for inputs of its own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import fuzz_targets
import plain_reading
import pytest
from fuzz_choices import Broken
from fuzz_streams import bases, binary_bodies, by_profile
from fuzz_targets import TARGETS

from turngate.domain.adapters.normalisers import profiles
from turngate.domain.stream import eventstream, gate, shapes, toolschema, toolset
from turngate.domain.stream.gate import Gate
from turngate.domain.stream.sequencer import Sequencer
from turngate.domain.stream.sse_text import SseDecoder
from turngate.domain.stream.strict_json import RejectedJson, parse_object

INPUTS = 300
HUNT_INPUTS = 4000


def inputs(count: int) -> Iterator[bytes]:
    chance = random.Random("turngate")
    for _ in range(count):
        yield chance.randbytes(chance.choice((4, 8, 16, 32, 64, 128)))


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks(name: str) -> None:
    for data in inputs(INPUTS):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_and_short_ones_are_inputs_too(name: str) -> None:
    TARGETS[name](b"")
    for first in range(256):
        TARGETS[name](bytes([first]))


def test_every_profile_is_fuzzed_with_calls_that_run_and_has_a_plain_reading() -> None:
    assert set(by_profile()) == set(profiles()) == set(plain_reading.READERS)
    for profile, found in by_profile().items():
        assert any(base.report["executable"] for base in found), profile
    assert any(base.report["executable"] for _, base in binary_bodies())


def test_the_plain_reading_says_of_every_fixture_what_the_gate_says() -> None:
    asked = 0
    for base in bases():
        if base.report["executable"]:
            reading = plain_reading.plain_reading(base.fixture.profile, base.fixture.events)
            calls: Any = base.report["calls"]
            assert plain_reading.contradiction(reading, calls) is None, base.name
            asked += reading is not None
            assert reading is not None or base.fixture.profile == "gemini", base.name
            for field, other in (("argumentsRaw", "{}"), ("id", "other"), ("name", "other")):
                changed = [{**calls[0], field: other, "arguments": {"other": 1}}, *calls[1:]]
                if isinstance(reading, plain_reading.Pieces) and field != "argumentsRaw":
                    continue
                if base.fixture.profile in ("gemini",) and field == "id":
                    continue  # minted where the wire has none
                assert plain_reading.contradiction(reading, changed) is not None, (base.name, field)
    assert asked > 20


@pytest.mark.parametrize(
    ("pieces", "texts", "fits"),
    [
        (["ab", "c"], ["abc"], True),
        (["a", "x", "b", "y"], ["ab", "xy"], True),
        (["a", "x", "b", "y"], ["ba", "xy"], False),
        (["a"], ["a", "a"], False),
        (["a", "a"], ["a"], False),
        ([{"b": 1, "a": 2}], ['{"a":2, "b":1}'], True),
        ([{"a": 2}], ['{"a":3}'], False),
        ([None, ""], [""], True),
    ],
)
def test_pieces_are_dealt_in_order_and_all_of_them(pieces: list[object], texts: list[str], fits: bool) -> None:
    calls = [{"argumentsRaw": text} for text in texts]
    assert (plain_reading.contradiction(plain_reading.Pieces(pieces), calls) is None) == fits


def test_an_input_that_takes_too_long_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_targets, "INPUT_SECONDS_MAX", -1.0)
    with pytest.raises(Broken, match="too long"):
        TARGETS["json"](b"")


# -- planted faults --------------------------------------------------------------------------------------------


def _keeps_no_order(self: Sequencer, first_seq: int, events: Sequence[str]) -> Sequence[str]:
    self.next_seq += len(events)
    return events


def _repairing(text: str, **bounds: int) -> dict[str, object]:
    """Closes what was cut, as a parser for partial JSON does."""
    for end in ("", "}", '"}', ':""}'):
        with suppress(RejectedJson):
            return parse_object(text + end, **bounds)
    return parse_object(text, **bounds)


def _lenient(text: str, **_: object) -> dict[str, object]:
    try:
        value = json.loads(text or "{}", strict=False)
    except ValueError:
        raise RejectedJson("malformed_json", "no JSON") from None
    return value if isinstance(value, dict) else {}


class _Equal(int):
    """A checksum that is always right."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _plant_sequencer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sequencer, "accept", _keeps_no_order)
    patch.setattr(Sequencer, "is_whole", lambda self, count: True)


def _plant_repair(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gate, "parse_object", _repairing)


def _plant_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(eventstream, "zlib", SimpleNamespace(crc32=lambda data: _Equal()))


def _plant_split(patch: pytest.MonkeyPatch) -> None:
    feed = SseDecoder.feed

    def careless(self: SseDecoder, chunk: bytes) -> list[str]:
        self._after_cr = False
        return feed(self, chunk)

    patch.setattr(SseDecoder, "feed", careless)


def _plant_json(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuzz_targets, "parse_object", _lenient)


def _plant_keyword(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(toolschema, "PLAIN", toolschema.PLAIN | {"x-made-up", "nullable", "strict"})
    patch.setattr(toolset, "_CACHE", {})


def _plant_gate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "_check_blocks", lambda self: None)
    patch.setattr(gate, "BLOCKING_ORDER", ())


def _plant_escape(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shapes, "_read", list)


def hunt(target: str) -> None:
    for data in inputs(HUNT_INPUTS):
        TARGETS[target](data)


PLANTED: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "order": ("relay", _plant_sequencer),
    "cut arguments repaired": ("stream", _plant_repair),
    "findings that block nothing": ("stream", _plant_gate),
    "an escape unread": ("runs", _plant_escape),
    "a checksum unread": ("body", _plant_crc),
    "a line end cut in two": ("body", _plant_split),
    "lenient JSON": ("json", _plant_json),
    "a keyword let through": ("schema", _plant_keyword),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, plant = PLANTED[fault]
    bases()
    plant(monkeypatch)
    with pytest.raises(Broken):
        hunt(target)
