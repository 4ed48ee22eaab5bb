"""The answer of an audit: one result for each invariant, with counter-examples of the refuted ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turngate.domain.audit.gist import gist, line_gist
from turngate.domain.audit.log import Entry, ReceiveLine

TITLES: Mapping[str, str] = {
    "I1": "nothing is sent for an invalid or waiting sequence",
    "I2": "no tool order without its committed turn",
    "I3": "one turn for each revision, without gaps",
    "I4": "one live attempt; a generation's bytes go out at most once",
    "I5": "each committed call has one result, in call order",
    "I6": "nothing accepted is lost",
    "I7": "no preview enters history; each ends once",
    "I8": "the preview equals the committed text",
    "I9": "the bytes sent are the bytes the manifest names",
    "I10": "late and foreign events change nothing",
    "receipts": "every digest and receipt recomputes",
}
"""What is checked, in order of the report."""

EXAMPLES_MAX = 20
"""How many breaches of one invariant are kept; all are counted."""


class Status(StrEnum):
    """proved: every case was seen and held. by_senders_word: held, but nobody outside saw the bytes.
    unseen: there was no case to look at, which proves nothing.
    """

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDABLE = "undecidable"
    BY_SENDERS_WORD = "by_senders_word"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One record for people. A line of the receive log has partition -1 and its number as offset."""

    topic: str
    partition: int
    offset: int
    time_ms: int
    gist: str


@dataclass(frozen=True, slots=True)
class Breach:
    """One counter-example: what is wrong, and the records that show it in order of time."""

    why: str
    timeline: tuple[TimelineRow, ...]


@dataclass(frozen=True, slots=True)
class InvariantResult:
    """counts: how many cases of what were looked at. unknowns: why some cases could not be decided."""

    invariant: str
    status: Status
    counts: Mapping[str, int]
    breach_count: int
    breaches: tuple[Breach, ...]
    unknown_count: int
    unknowns: tuple[str, ...]

    @property
    def title(self) -> str:
        return TITLES[self.invariant]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Results in the order of TITLES. records: how many records of each topic were read."""

    results: tuple[InvariantResult, ...]
    records: Mapping[str, int]
    lines: int | None

    @property
    def refuted(self) -> tuple[str, ...]:
        return tuple(result.invariant for result in self.results if result.status is Status.REFUTED)

    @property
    def exit_code(self) -> int:
        """1 where something is refuted, else 0: what cannot be decided is said, not failed."""
        return 1 if self.refuted else 0

    def of(self, invariant: str) -> InvariantResult:
        """The result of one invariant. Raises KeyError for an id that is not checked."""
        for result in self.results:
            if result.invariant == invariant:
                return result
        raise KeyError(invariant)

    def plain(self) -> dict[str, object]:
        """The report as JSON data, camelCase."""
        return {
            "exitCode": self.exit_code,
            "refuted": list(self.refuted),
            "records": dict(self.records),
            "receiveLines": self.lines,
            "invariants": [_plain_result(result) for result in self.results],
        }


def entry_row(entry: Entry) -> TimelineRow:
    return TimelineRow(entry.topic, entry.partition, entry.offset, entry.time_ms, gist(entry))


def line_row(line: ReceiveLine) -> TimelineRow:
    return TimelineRow("receive-log", -1, line.number, line.time_ms, line_gist(line))


@dataclass(slots=True)
class Findings:
    """What one check has found so far."""

    invariant: str
    senders_word: bool = False
    counts: dict[str, int] = field(default_factory=dict[str, int])
    breaches: list[Breach] = field(default_factory=list[Breach])
    breach_count: int = 0
    unknowns: list[str] = field(default_factory=list[str])
    unknown_count: int = 0

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def breach(self, why: str, *shown: Entry | ReceiveLine) -> None:
        """A counter-example, with the records that show it."""
        self.breach_count += 1
        rows = {line_row(one) if isinstance(one, ReceiveLine) else entry_row(one) for one in shown}
        timeline = sorted(rows, key=lambda row: (row.time_ms, row.topic, row.partition, row.offset))
        self.breaches.append(Breach(why, tuple(timeline)))

    def pending(self, settled: bool, why: str, *shown: Entry | ReceiveLine) -> None:
        """Something that may still be on its way: a counter-example only for a run that is over."""
        if settled:
            self.breach(why, *shown)
        else:
            self.count("still open")
            self.unknown("work is still open: run again when it has settled, with --expect-settled")

    def unknown(self, why: str) -> None:
        """A case that the log cannot decide."""
        self.unknown_count += 1
        if len(self.unknowns) < EXAMPLES_MAX and why not in self.unknowns:
            self.unknowns.append(why)

    def result(self) -> InvariantResult:
        # The first in time is the one to look at: what follows is often its consequence.
        ordered = sorted(self.breaches, key=lambda breach: breach.timeline[0].time_ms if breach.timeline else 0)
        if self.breach_count:
            status = Status.REFUTED
        elif self.unknown_count:
            status = Status.UNDECIDABLE
        elif not any(self.counts.values()):
            status = Status.UNSEEN
        else:
            status = Status.BY_SENDERS_WORD if self.senders_word else Status.PROVED
        return InvariantResult(
            self.invariant,
            status,
            dict(self.counts),
            self.breach_count,
            tuple(ordered[:EXAMPLES_MAX]),
            self.unknown_count,
            tuple(self.unknowns),
        )


def _plain_result(result: InvariantResult) -> dict[str, object]:
    return {
        "invariant": result.invariant,
        "title": result.title,
        "status": result.status.value,
        "counts": dict(result.counts),
        "breachCount": result.breach_count,
        "unknownCount": result.unknown_count,
        "unknowns": list(result.unknowns),
        "breaches": [
            {
                "why": breach.why,
                "timeline": [
                    {
                        "topic": row.topic,
                        "partition": row.partition,
                        "offset": row.offset,
                        "timeMs": row.time_ms,
                        "gist": row.gist,
                    }
                    for row in breach.timeline
                ],
            }
            for breach in result.breaches
        ],
    }
