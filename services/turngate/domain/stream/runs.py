"""A run: events that only go on with the block that the one before them added to. Most of a stream is one."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from turngate.domain.stream.operations import Continuation, Delta
from turngate.domain.stream.shapes import Shape, shape_of
from turngate.domain.stream.slots import Slot, Slots
from turngate.domain.stream.strict_json import repeated_key

UNREADABLE = object()
"""Stands for an event that is not JSON."""
_PAYS = 8
"""Events that a shape must have told for the making of it to have paid."""
_TRIES = 4
"""Shapes in a row that may not pay before a run does without."""


def parsed(raw: str) -> object:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return UNREADABLE


class Run:
    """Where the last delta went, and how to tell the events that only go on there.

    The shape of the last one that was read tells those that are written like it, until an event goes through the
    normaliser: from then on the same letters may mean something else.
    """

    __slots__ = ("_continuation", "_delta", "_shape", "_slot", "_told", "_tries")

    def __init__(self, continuation: Continuation, delta: Delta, slot: Slot) -> None:
        self._continuation = continuation
        self._delta = delta
        self._slot = slot
        self._shape: Shape | None = None
        self._told = 0
        self._tries = _TRIES

    def take(self, events: Sequence[str], at: int, event_index: int, slots: Slots) -> tuple[int, object]:
        """Takes the events from `at` on that go on with the run, the first being the relay's `event_index`th.

        Returns the place of the first that does not, and what it holds, parsed.
        """
        reads, due, took = self._continuation
        number = None if due is None else due()
        texts: list[str] = []
        value: object = None
        reached, end = at, len(events)
        while reached < end:
            if self._shape is not None:
                told = self._shape.texts(events, reached, number)
                self._told += len(told)
                texts = texts + told if texts else told
                reached += len(told)
                number = None if number is None else number + len(told)
                if reached == end:
                    break
            raw = events[reached]
            value = parsed(raw)
            text = reads(value, number)
            if text is None or repeated_key(value, raw) is not None:
                break
            if self._tries >= 0:
                self._learn(raw, text, number)
            texts.append(text)
            reached += 1
            number = None if number is None else number + 1
        if texts:
            whole = "".join(texts)
            slots.extend(self._slot, self._delta, texts, whole, event_index)
            if took is not None:
                took(texts, whole)
        return reached, value

    def _learn(self, raw: str, text: str, number: int | None) -> None:
        """The shape of an event that goes on, unless those before it told too few."""
        self._tries = _TRIES if self._told >= _PAYS else self._tries - 1
        self._told = 0
        self._shape = shape_of(raw, text, number, self._continuation.reads) if self._tries >= 0 else None

    def forget(self) -> None:
        """An event went through the normaliser."""
        self._shape = None
