"""Open streams of one partition: what is in memory between a relay's `begin` and the outcome of its attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turngate.domain.stream import Assembler, CompiledToolset, UnknownNormaliser
from turngate.reassembler.events import AttemptEvents
from turngate.runtime.records import InputRecord
from turngate.schemas.errors import Retryable
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX
from turngate.schemas.sequence import OperationSpec


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


def _no_records() -> list[InputRecord]:
    return []


@dataclass(slots=True)
class OpenStream:
    """One relay being reassembled.

    first_offset: of the oldest frame of the attempt that is still needed. bound_handle: '' until bound in Redis.
    foreign: set once a script refused the stream; its frames then only go to quarantine. kept: its raw frames, up to
    the quarantine limit, for the case that the turn is blocked.
    """

    key: bytes
    spec: OperationSpec
    manifest: DispatchManifest
    generation: int
    relay: int
    first_offset: int
    assembler: Assembler
    events: AttemptEvents
    bound: bool = False
    foreign: str = ""
    kept: list[InputRecord] = field(default_factory=_no_records)
    kept_bytes: int = 0

    def keep(self, record: InputRecord) -> None:
        """Keeps a raw frame as long as the limit allows."""
        size = len(record.value or b"")
        if self.kept_bytes + size <= QUARANTINE_BYTES_MAX:
            self.kept.append(record)
        self.kept_bytes += size


class OpenStreams:
    """Streams by (operation, generation), the batch's memory of what was done, and the low watermark."""

    def __init__(self, muted_until: int) -> None:
        self.muted_until = muted_until
        self._streams: dict[tuple[str, int], OpenStream] = {}
        self._undone: set[int] = set()
        self._expected = -1
        self._next = 0

    def get(self, operation: str, generation: int) -> OpenStream | None:
        return self._streams.get((operation, generation))

    def put(self, stream: OpenStream) -> None:
        self._streams[(stream.spec.operation_id, stream.generation)] = stream

    def drop(self, operation: str, generation: int) -> OpenStream | None:
        return self._streams.pop((operation, generation), None)

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
        oldest = min([emitted, *(stream.first_offset for stream in self._streams.values())])
        return oldest, max(emitted, self.muted_until)
