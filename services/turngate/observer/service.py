"""The observer's Faust app: one table of turns per tenant and minute, and the agent that counts into it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from faust.windows import TumblingWindow

from turngate.observer.reading import read_turn
from turngate.observer.transport import ROLE, header_pairs, new_app
from turngate.observer.windows import (
    KEPT_SECONDS,
    WINDOW_SECONDS,
    Entry,
    Key,
    WindowCount,
    counted,
    is_stale,
    per_minute,
)
from turngate.runtime.clock import Clock
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord
from turngate.runtime.settings import Settings
from turngate.topology.topics import TOPICS

TURNS = "turns"


class Observer:
    """The app and its table, in the loop of the process. Not thread-safe; build it on the loop it runs on."""

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics, folder: Path) -> None:
        """folder: Faust's, for as long as the app lives. Raises ConfigurationError: a credential's file is unusable."""
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._window = TumblingWindow(WINDOW_SECONDS, KEPT_SECONDS)
        self.app: Any = new_app(settings, folder)
        prefix = settings.topic_prefix
        self._turns_name = TOPICS[TURNS].full_name(prefix)
        changelog = self.app.topic(
            TOPICS[ROLE.tables[0]].full_name(prefix), key_serializer="json", value_serializer="json", acks=False,
            internal=True, allow_empty=True, partitions=settings.partitions,
        )  # fmt: skip
        # Without Faust's wrapper: it looks up windows by the event at hand, and a query has none.
        self._table: Any = self.app.Table(
            "turns", window=self._window, partitions=settings.partitions, changelog_topic=changelog,
            on_recover=self._recovered,
        ).table  # fmt: skip
        self._table.changelog_topic = changelog  # given a window, the table falls back to a topic of its own
        turns = self.app.topic(
            self._turns_name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw",
            allow_empty=True, partitions=settings.partitions,
        )  # fmt: skip
        self.app.agent(turns, name="turns")(self._count_all)

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned and the table holds all that their changelogs say."""
        return bool(self.app.tables.actives_ready) and not self.app.should_stop

    def turns_per_minute(self, tenant: str) -> tuple[list[WindowCount], bool]:
        """A tenant's windows, newest first, and whether they are over all partitions: another instance has the rest."""
        held = self._held()
        entries = cast(Iterable[tuple[Key, Entry]], self._table.items())
        complete = self.ready and len(held) == self._settings.partitions
        return per_minute(entries, tenant, held, self._now()), complete

    async def _count_all(self, stream: Any) -> None:
        async for event in stream.events():
            self._count(event.message)

    def _count(self, message: Any) -> None:
        record = InputRecord(
            topic=TURNS, partition=message.partition, offset=message.offset,
            timestamp_ms=int(message.timestamp * 1000), key=message.key, value=message.value,
            headers=header_pairs(message.headers),
        )  # fmt: skip
        turn = read_turn(record, self._settings)
        if isinstance(turn, str):
            self._metrics.observer_skipped.labels(turn).inc()
            return
        key: Key = ((record.partition, turn.tenant), self._window.current(message.timestamp))
        entry = counted(self._table.get(key), record.offset)
        if entry is not None:
            self._table[key] = entry
            self._metrics.observed_turns.labels(turn.kind).inc()

    async def _recovered(self) -> None:
        """Faust expires only what was set in this process: what came from the changelog is entered here."""
        for key in cast(list[Key], list(self._table.data)):
            if is_stale(key, self._now()):
                self._table.data.pop(key, None)
            else:
                self._table._maybe_set_key_ttl(key, key[0][0])

    def _held(self) -> set[int]:
        return {tp.partition for tp in self.app.consumer.assignment() if tp.topic == self._turns_name}

    def _now(self) -> float:
        return self._clock.wall_ms() / 1000
