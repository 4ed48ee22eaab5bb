"""Recovery: the clock and the repairman (DESIGN §3, §6).

It finds expired leases and due timers in its partitions' buckets and turns each into a record for the role that owns
the effect, again every few seconds until that role's script has removed the entry; it reconciles closed buckets, keeps
their checkpoints, and copies complete session events to the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from turngate.recovery.reconcile import EFFECT_TOPICS, LogReader, Reconciler
from turngate.recovery.repair import RepairDesk
from turngate.recovery.store import RecoveryStore
from turngate.recovery.toolsets import ToolsetLoader, refusal
from turngate.runtime.clock import Clock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.outbound import decoded
from turngate.runtime.records import InputRecord, Output, StepResult
from turngate.runtime.redis.scripts import BucketClosed, Scripts
from turngate.schemas.control import RECOVERY_COMMANDS, Control
from turngate.schemas.envelope import conversation_key
from turngate.schemas.session import PARTIALS, SessionEvent
from turngate.schemas.tools import Toolset
from turngate.schemas.turn import Turn
from turngate.topology.keys import bucket_of

SCAN_EVERY_MS = 500
SCAN_ALL_EVERY_MS = 2_000
"""Buckets in which nothing happened of late: looking at each of 1,024 every half second costs a tenth of a core."""
HOT_MS = 60_000
"""How long after a record or a due entry something is likely to fall due in a bucket."""
CHECKPOINT_EVERY_MS = 10_000


@dataclass(frozen=True, slots=True)
class RecoveryDeps:
    """What a recovery partition needs of the process."""

    scripts: Scripts
    endpoints: Mapping[str, Endpoint]
    tenants: frozenset[str]
    clock: Clock
    reader: LogReader
    reconciler: Callable[[int, RecoveryStore], Reconciler]
    buckets: Callable[[int], Sequence[int]]
    toolsets: ToolsetLoader
    lease_ms: int


class RecoveryHandler:
    """One partition of recovery: owns the buckets whose number modulo partitions is the partition."""

    def __init__(self, partition: int, deps: RecoveryDeps) -> None:
        self._partition = partition
        self._deps = deps
        self._buckets = deps.buckets(partition)
        self._store = RecoveryStore(deps.scripts, 0)
        self._desk = RepairDesk(self._store, deps.scripts, deps.endpoints, deps.clock)
        self._reconciler = deps.reconciler(partition, self._store)
        self._replid = ""
        self._scan_at_ms = 0
        self._scan_all_at_ms = 0
        self._checkpoint_at_ms = 0
        self._hot_until_ms: dict[int, int] = {}

    async def start(self, start: PartitionStart) -> None:
        self._store = RecoveryStore(self._deps.scripts, start.term)
        self._desk = RepairDesk(self._store, self._deps.scripts, self._deps.endpoints, self._deps.clock)
        self._reconciler = self._deps.reconciler(self._partition, self._store)
        self._replid = ""
        # Before anything is read: whoever waits for this partition's buckets need not wait for the first record.
        await self._open_buckets()

    async def stop(self) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        await self._open_buckets()
        outputs: list[Output] = []
        now = self._deps.clock.wall_ms()
        for record in records:
            outputs += await self._handle(record)
            if record.topic != "toolsets" and record.key is not None:
                self._hot_until_ms[bucket_of(record.key)] = now + HOT_MS
        if now >= self._checkpoint_at_ms:
            self._checkpoint_at_ms = now + CHECKPOINT_EVERY_MS
            await self._checkpoint()
        if now >= self._scan_at_ms:
            self._scan_at_ms = now + SCAN_EVERY_MS
            outputs += await self._scan(now)
        return StepResult(outputs=outputs)

    async def _open_buckets(self) -> None:
        """Reconciles where the server is another one than at the last look."""
        replid = await self._store.replid()
        if replid == self._replid:
            return
        await self._reconciler.run(self._deps.toolsets.load)
        self._replid = replid
        self._scan_all_at_ms = 0

    async def _checkpoint(self) -> None:
        """The end offsets are read before the write: whatever survives a loss holds every effect below them."""
        ends = await self._deps.reader.end_offsets(self._partition, EFFECT_TOPICS)
        await self._store.checkpoint(self._buckets, ends)

    async def _scan(self, now: int) -> list[Output]:
        """What is due in the buckets that something happened in, and now and then in all."""
        buckets: Sequence[int] = self._buckets
        if now < self._scan_all_at_ms:
            self._hot_until_ms = {bucket: until for bucket, until in self._hot_until_ms.items() if until > now}
            buckets = sorted(self._hot_until_ms)
        else:
            self._scan_all_at_ms = now + SCAN_ALL_EVERY_MS
        try:
            outputs: list[Output] = []
            for due in await self._store.due(buckets) if buckets else ():
                self._hot_until_ms[due.bucket] = now + HOT_MS
                outputs += await self._desk.repair(due)
            return outputs
        except BucketClosed:
            self._replid = ""
            raise

    async def _handle(self, record: InputRecord) -> list[Output]:
        if record.topic == "session-events":
            return self._trace(record)
        if record.topic == "control":
            return await self._control(record)
        if record.topic == "toolsets":
            return await self._toolset(record)
        turn = decoded(Turn, record)
        self._check(record, turn.tenant, turn.conversation)
        return []

    def _check(self, record: InputRecord, tenant: str, conversation: str) -> None:
        if record.key != conversation_key(tenant, conversation):
            raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
        if "*" not in self._deps.tenants and tenant not in self._deps.tenants:
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")

    def _trace(self, record: InputRecord) -> list[Output]:
        """Complete events only: no partials, nothing forwarded from a child conversation; byte for byte."""
        event = decoded(SessionEvent, record)
        self._check(record, event.tenant, event.conversation)
        if event.type in PARTIALS or event.origin:
            return []
        return [Output(topic="trace", key=record.key or b"", value=record.value or b"", headers=record.headers)]

    async def _toolset(self, record: InputRecord) -> list[Output]:
        """A toolset becomes known to the fleet: its bytes by digest. What no gate could work with is refused."""
        toolset = decoded(Toolset, record)
        if "*" not in self._deps.tenants and toolset.tenant not in self._deps.tenants:
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")
        refused = refusal(toolset)
        if refused is not None:
            where = f" ({refused.path})" if refused.path else ""
            raise Poison(record, refused.code, refused.message + where)
        await self._deps.toolsets.put(toolset)
        return []

    async def _control(self, record: InputRecord) -> list[Output]:
        control = decoded(Control, record)
        if control.command not in RECOVERY_COMMANDS:
            return []
        self._check(record, control.tenant, control.conversation)
        if control.operation_id is None or control.generation is None:
            raise Poison(record, "incomplete_command", "resolve_unknown needs operationId and generation")
        return await self._desk.resolve_by_operator(record, control)
