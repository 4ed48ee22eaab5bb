"""Cases of the quarantine: the records of one relay and reason put together, and judged once more, offline.

Nothing here writes anything: a quarantined frame has changed nothing and will change nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turngate.domain.stream.assembler import Assembler
from turngate.domain.stream.conformance import Fixture, Report, outcome_report
from turngate.domain.stream.outcome import StreamEnd
from turngate.domain.stream.redact import redact_events
from turngate.domain.stream.toolset import compile_toolset
from turngate.schemas.digests import parts_digest
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.quarantine import Quarantined
from turngate.schemas.registry import decode_any
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, ResolveFrame

FRAMES = ("StreamBegin.v1", "StreamEvents.v1", "StreamEnd.v1", "StreamResolve.v1")
IDENT_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Kept:
    """One quarantine record. time_ms: when it was written."""

    time_ms: int
    record: Quarantined

    @property
    def place(self) -> tuple[str, int, int]:
        origin = self.record.origin
        return (origin.topic, origin.partition, origin.offset)

    @property
    def payload(self) -> bytes:
        """The raw bytes, as many as were kept."""
        payload = self.record.payload
        return base64.b64decode(payload.value) if payload.encoding == "base64" else payload.value.encode()

    @property
    def whole(self) -> bool:
        return len(self.payload) == self.record.payload.length


@dataclass(frozen=True, slots=True)
class Case:
    """What was set aside of one relay (or of one call's results) for one reason, in the order it was read."""

    ident: str
    kept: tuple[Kept, ...]

    @property
    def record(self) -> Quarantined:
        return self.kept[0].record

    @property
    def tenant(self) -> str:
        return (self.record.key or "").partition("/")[0]

    @property
    def conversation(self) -> str:
        return (self.record.key or "").partition("/")[2]

    @property
    def time_ms(self) -> int:
        return min(one.time_ms for one in self.kept)

    @property
    def length(self) -> int:
        return sum(one.record.payload.length for one in self.kept)


def cases_of(records: Iterable[Kept]) -> list[Case]:
    """The cases, the newest first. A record that was written twice counts once; of one frame several parts may be
    kept."""
    groups: dict[str, dict[tuple[str, int, int, str], Kept]] = {}
    for one in records:
        record = one.record
        ident = parts_digest(
            record.key or "", record.operation_id or "", record.generation or 0, record.relay or 0,
            record.call_key or "", record.reason,
        )[:IDENT_CHARACTERS]  # fmt: skip
        groups.setdefault(ident, {}).setdefault((*one.place, record.payload.digest), one)
    found = [Case(ident, tuple(sorted(group.values(), key=lambda one: one.place))) for ident, group in groups.items()]
    return sorted(found, key=lambda case: (-case.time_ms, case.ident))


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a case. unread: records that are no whole frame, because they were cut at the limit or are none.

    events: (seq, exact text) in order, the first copy of each.
    """

    begin: BeginFrame | None
    end: EndFrame | None
    profile: str | None
    events: tuple[tuple[int, str], ...]
    unread: int

    @property
    def complete(self) -> bool:
        """Whether nothing is missing from the first event to the last, as far as the frames themselves tell."""
        whole = [seq for seq, _ in self.events] == list(range(len(self.events)))
        counted = self.end is None or self.end.count in (None, len(self.events))
        return whole and counted and self.begin is not None and not self.unread


def frames_of(case: Case) -> Frames:
    """Reads the payloads; what cannot be read is counted."""
    begin: BeginFrame | None = None
    end: EndFrame | None = None
    profile: str | None = None
    events: dict[int, str] = {}
    unread = 0
    for one in case.kept:
        try:
            frame = decode_any(one.payload, FRAMES)
        except (InvalidRecord, UnknownSchema):
            unread += 1
            continue
        if isinstance(frame, BeginFrame):
            begin, profile = begin or frame, profile or frame.profile
        elif isinstance(frame, EventsFrame):
            profile = profile or frame.profile
            for seq, event in enumerate(frame.events, frame.first_seq):
                events.setdefault(seq, event)
        elif isinstance(frame, EndFrame):
            end = end or frame
        else:
            assert isinstance(frame, ResolveFrame)
    return Frames(begin, end, profile, tuple(sorted(events.items())), unread)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the request had declared. tools: None where its toolset was not found, so that no call can be checked."""

    tools: Mapping[str, object] | None = None
    forced: bool = False


def judge(frames: Frames, asked: Asked, normaliser: str | None = None) -> Report:
    """What the gate says of these frames now, as a report without text and arguments.

    normaliser: `profile@version`, or `profile` for the newest; None: the newest of the frames' profile. Raises
    UnknownNormaliser. The relay is taken to have ended as its `end` says, or properly where none was set aside.
    """
    name, _, version = (normaliser or frames.profile or "").partition("@")
    assembler = Assembler(
        profile=name,
        normaliser_version=_version(version),
        tools=compile_toolset(asked.tools or {}),
        tool_choice="forced" if asked.forced else None,
    )
    for seq, event in frames.events:
        assembler.feed(seq, (event,))
    end = frames.end
    relay_end = StreamEnd("eof") if end is None else StreamEnd(
        end.cause, status=end.status, error_class=end.error_class, count=end.count,
        evidence_closed=end.evidence is not None,
    )  # fmt: skip
    report = outcome_report(assembler.end(relay_end), assembler.normaliser)
    return without_content(report)


def _version(text: str) -> int | None:
    """The pinned version; none there is where a pin names no number."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1


def without_content(report: Report) -> Report:
    """A report whose calls are named but not quoted and whose turn has no text."""
    calls = report["calls"]
    turn = report["turn"]
    assert isinstance(calls, list)
    assert isinstance(turn, dict)
    return {
        **report,
        "calls": [{key: call[key] for key in ("id", "name", "slot")} for call in calls],
        "turn": {key: turn[key] for key in ("verdict", "stop", "usage")},
    }


def error_codes(report: Report) -> list[str]:
    """The codes that block, each once, in the order they were found."""
    findings = report["findings"]
    assert isinstance(findings, list)
    return list(dict.fromkeys(str(one["code"]) for one in findings if one["severity"] == "error"))


def fixture_of(case: Case, frames: Frames, asked: Asked) -> Fixture:
    """The case as a fixture. `meta` says where it comes from and whether anything is missing; it quotes nothing."""
    record = case.record
    meta: dict[str, object] = {
        "quarantine": case.ident,
        "reason": record.reason,
        "generation": record.generation,
        "relay": record.relay,
        "normaliser": None if frames.begin is None else frames.begin.normaliser,
        "complete": frames.complete,
        "toolset": asked.tools is not None,
    }
    return Fixture(
        profile=frames.profile or "",
        tool_schemas=asked.tools or {},
        events=[event for _, event in frames.events],
        tool_choice="forced" if asked.forced else None,
        meta={key: value for key, value in meta.items() if value is not None},
        digest="",
    )


def redacted_frames(case: Case, frames: Frames, asked: Asked) -> list[tuple[Kept, Sequence[str]]]:
    """For each record of the case what may be shown of it: the events of a frame, or its whole payload, redacted."""
    texts = redact_events(frames.profile or "", asked.tools or {}, [event for _, event in frames.events])
    masked = {seq: text for (seq, _), text in zip(frames.events, texts, strict=True)}
    shown: list[tuple[Kept, Sequence[str]]] = []
    for one in case.kept:
        try:
            frame = decode_any(one.payload, FRAMES)
        except (InvalidRecord, UnknownSchema):
            shown.append((one, redact_events("", {}, [one.payload.decode("utf-8", "replace")])))
            continue
        if isinstance(frame, EventsFrame):
            seqs = range(frame.first_seq, frame.first_seq + len(frame.events))
            shown.append((one, [f"{seq}: {masked[seq]}" for seq in seqs]))
        else:
            # These hold ids, numbers and words of ours alone.
            shown.append((one, [one.payload.decode("utf-8", "replace")]))
    return shown
