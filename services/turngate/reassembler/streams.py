"""Open streams of one partition: what is in memory between a relay's `begin` and the outcome of its attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from turngate.domain.stream import Assembler, CompiledToolset, Preview, UnknownNormaliser
from turngate.reassembler.closing import CLOSING_BYTES_MAX, closing_frames
from turngate.reassembler.events import AttemptEvents
from turngate.reassembler.frames import Events
from turngate.runtime.records import InputRecord
from turngate.schemas.errors import Retryable
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX
from turngate.schemas.tools import Toolset

KeptFrame = tuple[int, bytes]
"""Offset and value of a raw frame."""


class NormaliserMissing(Retryable):
    """This build lacks the normaliser that a manifest pins. During a roll-out the stream waits for a build that has it;
    as a dead letter it would be lost, and its attempt would never have an outcome."""

    code = "unknown_normaliser"


def assembler_for(manifest: DispatchManifest, tools: CompiledToolset, tool_choice: str | None) -> Assembler:
    """Reads one relay by the normaliser its manifest pins. Raises NormaliserMissing."""
    profile, _, version = manifest.normaliser.partition("@")
    try:
        return Assembler(
            profile=profile,
            normaliser_version=int(version) if version else None,
            tools=tools,
            tool_choice=tool_choice,
        )
    except UnknownNormaliser:
        raise NormaliserMissing(f"no normaliser {manifest.normaliser}: run a build that has it") from None


def _no_frames() -> list[KeptFrame]:
    return []


@dataclass(slots=True)
class OpenStream:
    """One relay being reassembled. There may be tens of thousands: what Redis tells at the end is not kept here.

    first_offset: of the oldest frame of the attempt that is still needed. bound:
    whether the handle is, in Redis. foreign: set once a script refused the stream; its frames then only go to
    quarantine. kept: its raw frames, up to the quarantine limit, for the case that the turn is blocked.
    """

    key: bytes
    operation_id: str
    manifest_digest: str
    tools: Toolset | None
    generation: int
    relay: int
    first_offset: int
    assembler: Assembler
    events: AttemptEvents
    unshown: tuple[Preview, ...] = ()
    bound: bool = False
    foreign: str = ""
    kept: list[KeptFrame] = field(default_factory=_no_frames)
    kept_bytes: int = 0
    closing_bytes: int = 0

    def goes_on(self, key: bytes | None, relay: int) -> bool:
        """Whether a frame of that key and relay needs nothing but to be fed."""
        return self.bound and not self.foreign and self.relay == relay and self.key == key

    def feed(self, record: InputRecord, frame: Events) -> tuple[Preview, ...]:
        """One frame's events into the assembler, and the frame among those kept."""
        before = self.assembler.closings
        previews = self.assembler.feed(frame.first_seq, frame.events)
        self.keep(record, closing=self.assembler.closings != before)
        return previews

    def keep(self, record: InputRecord, *, closing: bool = False) -> None:
        """Keeps a raw frame as long as the limit allows; beyond it the events that close a turn, as own frames.

        closing: whether the frame holds any.
        """
        value = record.value or b""
        if self.kept_bytes + len(value) <= QUARANTINE_BYTES_MAX:
            self.kept.append((record.offset, value))
        elif closing:
            for part in closing_frames(value):
                if self.closing_bytes + len(part) <= CLOSING_BYTES_MAX:
                    self.kept.append((record.offset, part))
                    self.closing_bytes += len(part)
        self.kept_bytes += len(value)


class OpenStreams:
    """Streams by (operation, generation), the batch's memory of what was done, and the low watermark."""

    def __init__(self, muted_until: int) -> None:
        self.muted_until = muted_until
        self._streams: dict[tuple[str, int], OpenStream] = {}
        self._undone: set[int] = set()
        self._expected = -1
        self._next = 0
        # First offsets of the streams, the oldest on top; those of dropped ones stay until they come to the top.
        self._firsts: list[int] = []
        self._dropped: set[int] = set()

    def get(self, operation: str, generation: int) -> OpenStream | None:
        return self._streams.get((operation, generation))

    def put(self, stream: OpenStream) -> None:
        """A new stream, or one that takes the place of an earlier relay of its attempt."""
        self.drop(stream.operation_id, stream.generation)
        self._streams[(stream.operation_id, stream.generation)] = stream
        if stream.first_offset in self._dropped:
            self._dropped.discard(stream.first_offset)
        else:
            heappush(self._firsts, stream.first_offset)

    def drop(self, operation: str, generation: int) -> None:
        stream = self._streams.pop((operation, generation), None)
        if stream is not None:
            self._dropped.add(stream.first_offset)

    def __len__(self) -> int:
        return len(self._streams)

    def expect(self, offsets: Sequence[int]) -> bool:
        """Records are about to be stepped. True where they begin a new batch: then everything before is done with,
        committed or given to the dead letters. After an error the runtime steps parts of the same batch again."""
        fresh = min(offsets) > self._expected
        if fresh:
            self._undone.clear()
        self._expected = max(self._expected, *offsets)
        self._undone.update(offsets)
        return fresh

    def done(self, offset: int) -> None:
        """Its outputs have been given, or it can only end in the dead letters."""
        self._undone.discard(offset)
        self._next = max(self._next, offset + 1)

    def watermark(self) -> tuple[int, int]:
        """(oldest offset still needed, offset up to which outputs have been given)."""
        emitted = min([self._next, *self._undone])
        while self._firsts and self._firsts[0] in self._dropped:
            self._dropped.discard(heappop(self._firsts))
        oldest = min(emitted, self._firsts[0]) if self._firsts else emitted
        return oldest, max(emitted, self.muted_until)
