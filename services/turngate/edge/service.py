"""The projector: session-events into replay buffers, one handler per partition number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turngate.domain.session import Projection, StreamEvent, read_event
from turngate.edge.replay import Append, Appended, ReplayStore
from turngate.runtime.errors import Poison, Retryable
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.records import InputRecord, StepResult
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema

TRIES_MAX = 8
CACHED_CONVERSATIONS_MAX = 2_000
NOTHING = Appended(done=False, version="", state=b"")


class Contended(Retryable):
    """Another edge kept writing the same buffers, a zombie or a successor; the step is tried again."""

    code = "contention"


class _Read(NamedTuple):
    """A record that was read and found good."""

    offset: int
    event: StreamEvent
    value: bytes


@dataclass(frozen=True, slots=True)
class ProjectorDeps:
    """What a partition needs of the process."""

    store: ReplayStore
    tenants: frozenset[str]


class ProjectorHandler:
    """One partition. Its cache only saves a read: the buffer's version says whether it is right."""

    def __init__(self, deps: ProjectorDeps) -> None:
        self._deps = deps
        self._term = 0
        self._known: OrderedDict[bytes, Appended] = OrderedDict()

    async def start(self, start: PartitionStart) -> None:
        self._term = start.term
        self._known.clear()

    async def stop(self) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        """Nothing is produced, only the offset moves; no committed reader waits for that."""
        waiting: dict[bytes, list[_Read]] = {}
        for record in records:
            waiting.setdefault(record.key or b"", []).append(self._read(record))
        for _ in range(TRIES_MAX):
            batches = [batch for key, lane in waiting.items() if (batch := self._decide(key, lane)) is not None]
            if not batches:
                return StepResult(hold=True)
            appended = await self._deps.store.append(batches, self._term)
            for batch, now in zip(batches, appended, strict=True):
                self._remember(batch.key, now)
            waiting = {b.key: waiting[b.key] for b, now in zip(batches, appended, strict=True) if not now.done}
        raise Contended("replay buffers kept changing")

    def _read(self, record: InputRecord) -> _Read:
        try:
            event = read_event(record.value)
        except (InvalidRecord, UnknownSchema) as error:
            raise Poison(record, error.code, str(error)) from None
        if record.key != conversation_key(event.tenant, event.conversation):
            raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
        if "*" not in self._deps.tenants and event.tenant not in self._deps.tenants:
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")
        return _Read(record.offset, event, record.value or b"")

    def _decide(self, key: bytes, lane: Sequence[_Read]) -> Append | None:
        """What of a conversation's records is to be appended, given what is known of its buffer; None: nothing."""
        known = self._known.get(key, NOTHING)
        projection = Projection.load(known.state)
        done_until = int(known.version.partition(":")[2] or 0)
        shown = tuple(read.value for read in lane if read.offset >= done_until and projection.admit(read.event))
        return Append(key, known.version, lane[-1].offset + 1, projection.dump(), shown) if shown else None

    def _remember(self, key: bytes, now: Appended) -> None:
        self._known[key] = now
        self._known.move_to_end(key)
        if len(self._known) > CACHED_CONVERSATIONS_MAX:
            self._known.popitem(last=False)
