"""The reassembler's side of Redis: what it knows of an attempt, the handle bind, and the two outcome scripts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from turngate.runtime.redis.scripts import Answer, Call, Scripts
from turngate.topology.keys import bucket_of

FIELDS = 16

Asked = tuple[str, bytes]
"""Operation id and record key of a frame. Frames of other conversations may name the same operation."""


@dataclass(frozen=True, slots=True)
class AttemptView:
    """What Redis says of an operation when one of its frames is read.

    key: of the operation's conversation; empty where the operation is not known in the bucket of the frame's key.
    decided: highest generation with an outcome. sources: per generation up to it, where the frame that caused its
    outcome was read (`topic/partition@offset`; empty where it is not known).
    began: generation whose request_begin is known to be written, 0 where none; began_at: offset of the frame that told.
    """

    key: bytes
    state: str
    generation: int
    relay: int
    spec: bytes
    manifest: bytes
    cancelled: bool
    head_digest: str
    notes: str
    decided: int
    evidence: str
    began: int
    began_at: int
    sources: tuple[str, ...]

    def source(self, generation: int) -> str:
        """What caused the outcome of a generation; empty where it has none, or none is known."""
        return self.sources[generation - 1] if 0 < generation <= len(self.sources) else ""

    def decided_at(self, generation: int) -> int:
        """Offset of the frame that caused the outcome of a generation; -1 where none is known."""
        _, _, offset = self.source(generation).rpartition("@")
        return int(offset) if offset else -1


UNKNOWN_OPERATION = AttemptView(b"", "", 0, 0, b"", b"", False, "", "", 0, "", 0, -1, ())


class ReassemblerStore:
    """Runs the reassembler's scripts for one partition, under one term."""

    def __init__(self, scripts: Scripts, term: int) -> None:
        self._scripts = scripts
        self._term = term

    async def look_up(self, wanted: Collection[Asked]) -> dict[Asked, AttemptView]:
        """Views of operations, each as the bucket of the key knows it; one script per bucket in one round trip."""
        buckets: dict[int, list[Asked]] = {}
        for asked in wanted:
            buckets.setdefault(bucket_of(asked[1]), []).append(asked)
        calls = [
            Call("reassembler/lookup_v1", bucket, tuple(operation for operation, _ in several))
            for bucket, several in buckets.items()
        ]
        views: dict[Asked, AttemptView] = {}
        for several, reply in zip(buckets.values(), await self._scripts.run_many(calls, self._term), strict=True):
            for index, asked in enumerate(several):
                views[asked] = _view(reply[1 + index * FIELDS : 1 + (index + 1) * FIELDS])
        return views

    async def view(self, operation: str, key: bytes) -> AttemptView:
        """One operation as it is now."""
        reply = await self._scripts.run("reassembler/lookup_v1", bucket_of(key), self._term, operation)
        return _view(reply[1:])

    async def bind(self, key: bytes, *args: str | bytes | int) -> Answer:
        """Binds a handle once; see `lua/bind_v1.lua`."""
        return await self._scripts.run("reassembler/bind_v1", bucket_of(key), self._term, *args)

    async def commit(self, key: bytes, *args: str | bytes | int) -> Answer:
        """The canonical commit; see `lua/commit_v1.lua`."""
        return await self._scripts.run("reassembler/commit_v1", bucket_of(key), self._term, *args)

    async def end(self, key: bytes, *args: str | bytes | int) -> Answer:
        """Any other outcome; see `lua/end_v1.lua`."""
        return await self._scripts.run("reassembler/end_v1", bucket_of(key), self._term, *args)


def _view(row: Sequence[bytes]) -> AttemptView:
    if not row[0]:
        return UNKNOWN_OPERATION
    state = row[0].decode()
    began, _, began_at = row[13].partition(b"@")
    return AttemptView(
        key=row[15],
        state=state,
        generation=int(row[1] or 0),
        relay=int(row[2] or 0),
        spec=row[3],
        manifest=row[4],
        cancelled=state == "CANCELLED" or (row[6] or b"0") != row[7],
        head_digest=row[8].decode(),
        notes=row[10].decode(),
        decided=int(row[11] or 0),
        evidence=row[12].decode(),
        began=int(began or 0),
        began_at=int(began_at or -1),
        sources=tuple(row[14].decode().split("|")),
    )
