"""The ledger: orders each call of a canonical turn once, settles it once, commits the tool turn, asks for the next.

It acts on committed assistant turns only (read_committed), so nothing of a turn that is not canonical is ever ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.domain.ledger.calls import needs_approval
from turngate.ledger.control import LedgerControl
from turngate.ledger.quarantine import quarantined
from turngate.ledger.records import LedgerRecords, order_of
from turngate.ledger.settling import Settling
from turngate.ledger.store import LedgerStore
from turngate.runtime.clock import Clock
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import by_conversation, decoded, source_of
from turngate.runtime.records import InputRecord, Output, StepResult
from turngate.runtime.redis.owed import pack, unpack
from turngate.runtime.redis.registry import Toolsets, ToolsetUnknown
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.control import LEDGER_COMMANDS, Control
from turngate.schemas.digests import call_idempotency_key, call_key
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import InvalidRecord, UnknownSchema
from turngate.schemas.registry import decode_any_strict
from turngate.schemas.tools import ReplyTo, ToolDeclaration, ToolProgress, ToolResult
from turngate.schemas.turn import Turn


@dataclass(frozen=True, slots=True)
class LedgerDeps:
    """What a ledger partition needs of the process. reply_to gives where results of a conversation must go."""

    scripts: Scripts
    toolsets: Toolsets
    tenants: frozenset[str]
    clock: Clock
    metrics: Metrics
    reply_to: Callable[[bytes], ReplyTo]


class LedgerHandler:
    """One partition of the ledger."""

    def __init__(self, deps: LedgerDeps) -> None:
        self._deps = deps
        self._use(0)

    def _use(self, term: int) -> None:
        self._store = LedgerStore(self._deps.scripts, term)
        self._settling = Settling(self._store)
        self._control = LedgerControl(self._store, self._settling, self._deps, self.tools_of)

    async def start(self, start: PartitionStart) -> None:
        self._use(start.term)

    async def stop(self) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        return StepResult(outputs=await by_conversation(records, self._handle))

    async def _handle(self, record: InputRecord) -> list[Output]:
        if record.topic == "turns":
            return await self._turn(record)
        if record.topic == "tool-results":
            return await self._answer(record)
        control = decoded(Control, record)
        if control.command not in LEDGER_COMMANDS:
            return []
        self._check_address(record, control.tenant, control.conversation)
        return await self._control.handle(record, control)

    def _known_tenant(self, tenant: str) -> bool:
        return "*" in self._deps.tenants or tenant in self._deps.tenants

    def _check_address(self, record: InputRecord, tenant: str, conversation: str) -> None:
        if record.key != conversation_key(tenant, conversation):
            raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
        if not self._known_tenant(tenant):
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")

    async def tools_of(self, turn: Turn) -> dict[str, ToolDeclaration]:
        """The declarations a turn's calls were made under. Raises ToolsetUnknown."""
        digest = turn.options.toolset_digest if turn.options is not None else None
        if digest is None:
            raise ToolsetUnknown("the turn has calls and names no toolset")
        key = conversation_key(turn.tenant, turn.conversation)
        toolset = await self._deps.toolsets.require(digest, lambda: self._store.load(key, turn.revision))
        return {tool.name: tool for tool in toolset.tools}

    # --- turns ---------------------------------------------------------------------------------------------------

    async def _turn(self, record: InputRecord) -> list[Output]:
        turn = decoded(Turn, record)
        self._check_address(record, turn.tenant, turn.conversation)
        if turn.kind != "assistant" or not turn.tool_edges:
            return []
        if turn.options is None or turn.options.toolset_digest is None:
            raise Poison(record, "toolset_not_named", "calls without the toolset they were made under")
        tools = await self.tools_of(turn)
        key = conversation_key(turn.tenant, turn.conversation)
        now = self._deps.clock.wall_ms()
        records = LedgerRecords(turn.tenant, turn.conversation, record.timestamp_ms)
        outputs: list[Output] = []
        rows: list[str | bytes | int] = []
        asked = False
        for edge in turn.tool_edges:
            tool = tools[edge.tool]
            order = order_of(turn, edge, tool, attempt=1, now_ms=now, reply_to=self._deps.reply_to(key))
            state = "ORDERED"
            if needs_approval(tool):
                state = "PENDING" if asked else "AWAITING_APPROVAL"
                if not asked:
                    outputs.append(records.ask(order.call_key, edge, turn.revision))
                asked = True
            else:
                outputs.append(records.order(order))
            ident = call_key(turn.tenant, turn.conversation, turn.revision, edge.call_id)
            order_bytes = outputs[-1].value if state == "ORDERED" else b""
            rows += [
                ident, state, call_idempotency_key(ident), edge.arguments_digest, edge.generation, edge.tool,
                order_bytes, tool.deadline_ms,
            ]  # fmt: skip
        reply = await self._store.run("open_v1", key, key, turn.revision, source_of(record), pack(outputs), *rows)
        if reply[0] == b"ok":
            return outputs
        return unpack(reply[1]) if reply[0] == b"stored" else []

    # --- results -------------------------------------------------------------------------------------------------

    async def _answer(self, record: InputRecord) -> list[Output]:
        try:
            answer = decode_any_strict(record.value, ("ToolResult.v1", "ToolProgress.v1"))
        except (InvalidRecord, UnknownSchema) as error:
            raise Poison(record, error.code, str(error)) from None
        assert isinstance(answer, ToolResult | ToolProgress)
        if record.key != conversation_key(answer.tenant, answer.conversation):
            return self._foreign(record, "key_mismatch", answer.call_key)
        if not self._known_tenant(answer.tenant):
            return self._foreign(record, "unknown_tenant", answer.call_key)
        if answer.call_key != call_key(answer.tenant, answer.conversation, answer.revision, answer.call_id):
            return self._foreign(record, "result_mismatch", answer.call_key)
        if isinstance(answer, ToolProgress):
            return await self._progress(record, answer)
        return await self._result(record, answer)

    def _foreign(self, record: InputRecord, reason: str, key_of_call: str) -> list[Output]:
        if reason == "already_settled":
            self._deps.metrics.duplicate_results.inc()
        elif reason == "unknown_call":
            self._deps.metrics.orphan_results.inc()
        return [quarantined(record, reason, key_of_call)]

    async def _result(self, record: InputRecord, result: ToolResult) -> list[Output]:
        settled = await self._settling.settle(result, source_of(record), record.timestamp_ms)
        if isinstance(settled, str):
            return self._foreign(record, settled, result.call_key)
        return settled

    async def _progress(self, record: InputRecord, progress: ToolProgress) -> list[Output]:
        key = conversation_key(progress.tenant, progress.conversation)
        reply = await self._store.run(
            "progress_v1", key, progress.call_key, progress.idempotency_key, progress.attempt, progress.seq
        )
        if reply[0] == b"foreign":
            # A heartbeat that crosses its own result is no news; output of a settled call is kept, not shown.
            late = reply[1] == b"already_settled" and progress.progress != "output"
            return [] if late else self._foreign(record, reply[1].decode(), progress.call_key)
        if progress.progress != "output" or progress.content is None:
            return []
        records = LedgerRecords(progress.tenant, progress.conversation, record.timestamp_ms)
        return [
            records.event(
                "partial_tool_call_output", (progress.call_key, progress.attempt, progress.seq),
                call_key=progress.call_key, call_id=progress.call_id, tool=progress.tool, step="delta",
                text=progress.content,
            )
        ]  # fmt: skip
