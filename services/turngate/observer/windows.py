"""Counting turns in windows, without Faust: what a table entry holds, and what a query makes of the entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TypedDict

WINDOW_SECONDS = 60
KEPT_SECONDS = 3_600

Window = tuple[float, float]
"""First and last instant, in seconds since the Unix epoch."""
Key = tuple[tuple[int, str], Window]
"""((partition, tenant), window). With the partition in it, an entry has one writer and one changelog partition; a
tenant's conversations lie on all of them."""
Entry = Sequence[int]
"""[turns, offset behind the last of them]: the offset makes counting a record again harmless."""


class WindowCount(TypedDict):
    """One window of an answer. start: RFC 3339, UTC."""

    start: str
    turns: int


def counted(entry: Entry | None, offset: int) -> Entry | None:
    """The entry with the record at this offset counted; None where it had been counted before."""
    turns, behind = entry if entry is not None else (0, 0)
    return [turns + 1, offset + 1] if offset >= behind else None


def is_stale(key: Key, now: float) -> bool:
    """Whether the window is older than what is kept. now: seconds since the Unix epoch."""
    return key[1][1] < now - KEPT_SECONDS


def per_minute(
    entries: Iterable[tuple[Key, Entry]], tenant: str, partitions: Collection[int], now: float
) -> list[WindowCount]:
    """A tenant's windows over the given partitions, newest first; windows without turns are left out."""
    totals: dict[float, int] = {}
    for key, entry in entries:
        (partition, name), (start, _) = key
        if name == tenant and partition in partitions and not is_stale(key, now):
            totals[start] = totals.get(start, 0) + entry[0]
    return [WindowCount(start=_rfc3339(start), turns=totals[start]) for start in sorted(totals, reverse=True)]


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
