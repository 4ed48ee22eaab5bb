"""Which events of a conversation are new to a reader of uncommitted records (DESIGN §9).

An aborted transaction leaves its records in the log, and its redo writes them again, previews perhaps cut differently.
What lies wholly behind what was shown is dropped, what reaches beyond it is shown as it is, and nothing of an attempt
follows its outcome. The state is a few numbers per attempt and a window of event ids, so it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import orjson

from turngate.domain.session.events import StreamEvent
from turngate.schemas.base import MAX_SAFE_INTEGER

OPERATIONS_MAX = 16
"""Operations remembered, the ones touched last: one is open at a time, child conversations add theirs."""
EVENT_IDS_MAX = 256
"""Ids remembered of events that belong to no attempt's order; more than one transaction holds of a conversation."""
CLOSED = MAX_SAFE_INTEGER
"""The end of a block that was stopped: nothing lies beyond it."""

OPEN, RETRACTED, ENDED = 0, 1, 2
"""Phases of an attempt. After a retraction only its request_end is shown, after that nothing."""


@dataclass(slots=True)
class _Attempt:
    """ordinal: of the last complete event. relay: the highest retracted. ends: block -> where its text ends."""

    generation: int
    ordinal: int = -1
    relay: int = -1
    phase: int = OPEN
    ends: dict[str, int] = field(default_factory=dict[str, int])

    def preview(self, event: StreamEvent) -> bool:
        if self.phase != OPEN or (event.relay or 0) <= self.relay:
            return False
        block = f"{event.type.removeprefix('partial_')}/{event.block}"
        shown = self.ends.get(block)
        if event.step == "start":
            end = 0
        elif event.step == "stop":
            end = CLOSED
        else:
            end = min((shown or 0 if event.offset is None else event.offset) + event.length, CLOSED - 1)
        if shown is not None and end <= shown:
            return False
        self.ends[block] = end
        return True

    def retracted(self, relay: int | None) -> bool:
        """Of the whole generation, or of its relays up to one: what follows starts from nothing."""
        if self.phase != OPEN or (relay is not None and relay <= self.relay):
            return False
        self.ends = {}
        if relay is None:
            self.phase = RETRACTED
        else:
            self.relay = relay
        return True

    def complete(self, event: StreamEvent, ordinal: int) -> bool:
        if self.phase == ENDED or ordinal <= self.ordinal or (self.phase == RETRACTED and event.type != "request_end"):
            return False
        self.ordinal = ordinal
        if event.type == "request_end":
            self.phase, self.ends = ENDED, {}
        elif event.block is not None:
            self.ends[f"{event.type}/{event.block}"] = CLOSED
        return True


class Projection:
    """The state of one conversation. `admit` is to be called with its events in the order of the log."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._ids: dict[str, None] = {}

    def admit(self, event: StreamEvent) -> bool:
        """Whether the event is shown; remembers that it was."""
        if event.trace_only:
            return False
        if event.is_preview or event.ordinal is not None or event.type == "preview_retracted":
            attempt = self._attempt(event)
            if attempt is None:
                return False
            if event.is_preview:
                return attempt.preview(event)
            if event.ordinal is not None:
                return attempt.complete(event, event.ordinal)
            return attempt.retracted(event.relay)
        return self._once(event.event_id)

    def _attempt(self, event: StreamEvent) -> _Attempt | None:
        """The attempt of an event; a higher generation replaces it, of a lower one nothing is shown."""
        attempt = self._attempts.pop(event.operation, None)
        if attempt is None or attempt.generation < event.generation:
            attempt = _Attempt(event.generation)
        self._attempts[event.operation] = attempt
        if len(self._attempts) > OPERATIONS_MAX:
            del self._attempts[next(iter(self._attempts))]
        return attempt if attempt.generation == event.generation else None

    def _once(self, event_id: str) -> bool:
        if event_id in self._ids:
            return False
        self._ids[event_id] = None
        if len(self._ids) > EVENT_IDS_MAX:
            del self._ids[next(iter(self._ids))]
        return True

    def dump(self) -> bytes:
        """The stored form: the same state always gives the same bytes."""
        rows = [[name, a.generation, a.ordinal, a.relay, a.phase, a.ends] for name, a in self._attempts.items()]
        return orjson.dumps([rows, list(self._ids)])

    @classmethod
    def load(cls, stored: bytes) -> Self:
        """What `dump` gave; nothing gives a new conversation's state."""
        projection = cls()
        if stored:
            rows, ids = orjson.loads(stored)
            for name, generation, ordinal, relay, phase, ends in rows:
                projection._attempts[name] = _Attempt(generation, ordinal, relay, phase, ends)
            projection._ids = dict.fromkeys(ids)
        return projection
