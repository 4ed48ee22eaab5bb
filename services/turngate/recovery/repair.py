"""Turns what is due into records for the roles that own the effects. Nothing here decides an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turngate.recovery.store import Due, OperationView, RecoveryStore
from turngate.runtime.clock import Clock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import InputRecord, Output
from turngate.runtime.redis.registry import boot_numbers
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.codec import decode, decode_model
from turngate.schemas.control import Control
from turngate.schemas.envelope import attempt_headers, conversation_key
from turngate.schemas.requests import TurnRequest
from turngate.schemas.sequence import OperationSpec, SequenceCommand
from turngate.schemas.stream import EndFrame, Evidence, ResolveFrame
from turngate.topology.keys import bucket_of

ROLE = "recovery"
AGAIN_MS = 3_000
"""How long a record has to make its owner's script remove the entry before it is written again."""


class RepairDesk:
    """Works through the due entries of one partition."""

    def __init__(self, store: RecoveryStore, scripts: Scripts, endpoints: Mapping[str, Endpoint], clock: Clock) -> None:
        self._store = store
        self._scripts = scripts
        self._endpoints = endpoints
        self._clock = clock
        self._written: dict[str, int] = {}

    async def repair(self, due: Due) -> list[Output]:
        """The records for everything due in one bucket."""
        outputs: list[Output] = []
        outputs += await self._leases(due)
        by_kind: dict[str, list[str]] = {}
        for timer in due.timers:
            by_kind.setdefault(timer.partition("|")[0], []).append(timer)
        outputs += await self._retries(due.bucket, by_kind.pop("retry", []))
        outputs += await self._unknowns(due.bucket, by_kind.pop("unknown", []))
        for timer in by_kind.pop("wake", []):
            outputs += await self._wake(timer)
        for timer in by_kind.pop("call", []):
            outputs += self._call_timer(timer)
        await self._store.postpone(due.bucket, due.timers, AGAIN_MS)
        return outputs

    async def resolve_by_operator(self, record: InputRecord, control: Control) -> list[Output]:
        """An operator's word is evidence: stored first, then the `resolve` frame."""
        key = conversation_key(control.tenant, control.conversation)
        operation, generation = control.operation_id or "", control.generation or 0
        reply = await self._store.evidence(key, operation, generation, "operator")
        if reply[0] != b"ok":
            return []
        views = await self._store.operations(bucket_of(key), [operation])
        return [self._resolve(views[0], "operator", f"control/{control.control_id}")]

    # --- leases --------------------------------------------------------------------------------------------------

    async def _leases(self, due: Due) -> list[Output]:
        fresh = [operation for operation in due.leases if self._may_write(f"lease/{operation}")]
        views = await self._store.operations(due.bucket, fresh)
        boots = await boot_numbers(self._scripts.redis, self._scripts.prefix) if views else {}
        return [self._owner_gone(view, boots) for view in views if view.state and view.lease_until_ms <= view.now_ms]

    def _owner_gone(self, view: OperationView, boots: Mapping[str, int]) -> Output:
        tenant, _, conversation = view.key.decode().partition("/")
        evidence = self._evidence(view, boots)
        frame = EndFrame(
            tenant=tenant,
            conversation=conversation,
            operation_id=view.operation_id,
            generation=view.generation,
            relay=view.relay,
            cause="ownerGone",
            evidence=evidence,
        )
        return output(
            "stream-events", frame, tenant=tenant, conversation=conversation, role=ROLE,
            event_id=event_id("ownerGone", view.operation_id, view.generation, view.relay, evidence or "none"),
            headers=attempt_headers(view.operation_id, view.generation, view.relay),
        )  # fmt: skip

    def _evidence(self, view: OperationView, boots: Mapping[str, int]) -> Evidence | None:
        """The owner's instance is back with a higher boot number: its connection is closed. That ends the generation
        only where the endpoint says so."""
        if boots.get(view.owner, 0) <= view.boot:
            return None
        spec = decode_model(OperationSpec, view.spec)
        endpoint = self._endpoints.get(spec.options.endpoint)
        return "ownerRestarted" if endpoint is not None and endpoint.close_ends_generation else None

    # --- timers --------------------------------------------------------------------------------------------------

    async def _retries(self, bucket: int, timers: Sequence[str]) -> list[Output]:
        views = await self._store.operations(bucket, [timer.partition("|")[2] for timer in timers])
        outputs = []
        for view in views:
            if view.state != "TERMINATED" or not view.command:
                continue
            first = decode(SequenceCommand, view.command)
            command = first.model_copy(
                update={
                    "expected_generation": view.generation,
                    "manifest_digest": view.manifest_digest or None,
                    "mode": "send",
                }
            )
            outputs.append(
                output(
                    "sequences", command, tenant=first.spec.tenant, conversation=first.spec.conversation, role=ROLE,
                    event_id=event_id("sequences", view.operation_id, view.generation),
                )
            )  # fmt: skip
        return outputs

    async def _unknowns(self, bucket: int, timers: Sequence[str]) -> list[Output]:
        views = await self._store.operations(bucket, [timer.partition("|")[2] for timer in timers])
        boots = await boot_numbers(self._scripts.redis, self._scripts.prefix) if views else {}
        outputs = []
        for view in views:
            if view.state not in ("UNKNOWN", "CANCELLED"):
                continue
            evidence: str | None = view.evidence or self._evidence(view, boots)
            if evidence is None:
                continue
            reply = await self._store.evidence(view.key, view.operation_id, view.generation, evidence)
            if reply[0] == b"ok":
                outputs.append(self._resolve(view, evidence, f"evidence/{evidence}"))
        return outputs

    def _resolve(self, view: OperationView, evidence: str, cause: str) -> Output:
        tenant, _, conversation = view.key.decode().partition("/")
        frame = ResolveFrame.model_validate(
            {
                "tenant": tenant,
                "conversation": conversation,
                "operation_id": view.operation_id,
                "generation": view.generation,
                "relay": view.relay,
                "evidence": evidence,
                "cause_id": cause,
            }
        )
        return output(
            "stream-events", frame, tenant=tenant, conversation=conversation, role=ROLE,
            event_id=event_id("resolve", view.operation_id, view.generation, evidence),
            headers=attempt_headers(view.operation_id, view.generation, view.relay),
        )  # fmt: skip

    async def _wake(self, timer: str) -> list[Output]:
        key = timer.partition("|")[2].encode()
        found = await self._store.waiting(key)
        if found is None:
            return []
        request = decode(TurnRequest, found[0])
        woken = request.model_copy(update={"cause_id": f"{request.request_id}/{found[1]}", "base_revision": None})
        return [
            output(
                "turn-requests", woken, tenant=request.tenant, conversation=request.conversation, role=ROLE,
                event_id=event_id("wake", request.tenant, request.conversation, woken.cause_id or ""),
            )
        ]  # fmt: skip

    def _call_timer(self, timer: str) -> list[Output]:
        call_key = timer.partition("|")[2]
        tenant, conversation, *_ = call_key.split("/")
        due = self._clock.wall_ms()
        control = Control(
            tenant=tenant,
            conversation=conversation,
            control_id=event_id("timer", timer, due),
            command="timer",
            timer_id=timer,
            call_key=call_key,
            due_ms=due,
        )
        return [
            output(
                "control", control, tenant=tenant, conversation=conversation, role=ROLE,
                event_id=control.control_id,
            )
        ]  # fmt: skip

    def _may_write(self, what: str) -> bool:
        """At most one record per AGAIN_MS for an entry that no timer postpones."""
        now = self._clock.wall_ms()
        if self._written.get(what, 0) > now:
            return False
        if len(self._written) > 10_000:
            self._written = {name: at for name, at in self._written.items() if at > now}
        self._written[what] = now + AGAIN_MS
        return True
