"""The dispatcher: renders, names the exact bytes, passes the send door, hands the attempt to the relays (DESIGN §6).

The send door, in this order: (1) acceptance CAS; (2) one transaction with manifest, dispatch and the sequence's offset;
(3) own lease checked; (4) first byte. This module does (1) and prepares (2); `relays` does (3) and (4) after the
transaction is acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.dispatcher.relays import Relay, Relays
from turngate.dispatcher.store import Acceptance, Ask, DispatcherStore
from turngate.domain.adapters.registry import Adapter, AdapterError, RenderedRequest, adapter, build_manifest
from turngate.runtime.clock import Clock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.errors import Poison
from turngate.runtime.handlers import PartitionStart
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import decoded, event_id, output, source_of
from turngate.runtime.records import InputRecord, Output, StepResult
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import Scripts
from turngate.schemas.codec import encode
from turngate.schemas.digests import idempotency_key
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import Refused
from turngate.schemas.manifest import Dispatch, DispatchManifest
from turngate.schemas.sequence import SequenceCommand, sequence_digest

ROLE = "dispatcher"

QUIET_REFUSALS = frozenset({"cancelled", "stale_revision", "parked", "committed", "failed"})
"""Refusals that only mean the world moved on; anything else is shown as a dead letter."""


@dataclass(frozen=True, slots=True)
class DispatcherDeps:
    """What a dispatcher partition needs of the process."""

    scripts: Scripts
    toolsets: Toolsets
    endpoints: Mapping[str, Endpoint]
    tenants: frozenset[str]
    relays: Relays
    clock: Clock
    metrics: Metrics
    owner: str
    boot: int
    lease_ms: int
    replid: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A command rendered to its bytes, ready to ask for acceptance."""

    record: InputRecord
    command: SequenceCommand
    adapter: Adapter
    endpoint: Endpoint
    rendered: RenderedRequest
    manifest: DispatchManifest


class DispatcherHandler:
    """One partition of the dispatcher."""

    def __init__(self, deps: DispatcherDeps) -> None:
        self._deps = deps
        self._store = self._store_for(0)

    def _store_for(self, term: int) -> DispatcherStore:
        deps = self._deps
        return DispatcherStore(deps.scripts, term, deps.owner, deps.boot, deps.lease_ms)

    async def start(self, start: PartitionStart) -> None:
        self._store = self._store_for(start.term)

    async def stop(self) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        prepared = [await self._prepare(record) for record in records]
        asked_at = self._deps.clock.boot_ms()
        answers = await self._store.accept([_ask(item) for item in prepared])
        outputs: list[Output] = []
        relays: list[Relay] = []
        for item, answer in zip(prepared, answers, strict=True):
            self._deps.metrics.dispatches.labels(outcome=answer.verdict).inc()
            if answer.verdict == "ok":
                outputs += self._outputs(item, answer)
                relays.append(self._relay(item, answer, asked_at))
            elif answer.verdict == "refused" and answer.reason not in QUIET_REFUSALS:
                raise Poison(item.record, answer.reason, "the send door refused the operation")
        return StepResult(outputs=outputs, after_commit=[lambda: self._deps.relays.start(relays)] if relays else [])

    async def _prepare(self, record: InputRecord) -> _Prepared:
        command = decoded(SequenceCommand, record)
        spec, sequence = command.spec, command.sequence
        if record.key != conversation_key(spec.tenant, spec.conversation):
            raise Poison(record, "key_mismatch", "the record key is not tenant/conversation of its value")
        if "*" not in self._deps.tenants and spec.tenant not in self._deps.tenants:
            raise Poison(record, "unknown_tenant", "the tenant is not configured (TURNGATE_TENANTS)")
        same_conversation = (sequence.tenant, sequence.conversation) == (spec.tenant, spec.conversation)
        same_sequence = sequence.sequence_digest == spec.sequence_digest == sequence_digest(sequence)
        if not same_conversation or not same_sequence or sequence.conversation_revision != spec.base_revision:
            raise Poison(record, "sequence_mismatch", "the sequence is not the one its operation names")
        endpoint = self._deps.endpoints.get(spec.options.endpoint)
        if endpoint is None:
            raise Poison(record, "unknown_endpoint", "the endpoint is not configured (TURNGATE_ENDPOINTS)")
        toolset = None
        if sequence.toolset_digest is not None:
            key = conversation_key(spec.tenant, spec.conversation)
            toolset = await self._deps.toolsets.require(sequence.toolset_digest, lambda: self._store.check_open(key))
        try:
            chosen = adapter(sequence.adapter)
            rendered = chosen.render(sequence, toolset)
        except (AdapterError, Refused) as error:
            raise Poison(record, error.code, "the sequence cannot be rendered by the adapter it names") from None
        manifest = build_manifest(
            sequence,
            rendered,
            chosen,
            operation_id=spec.operation_id,
            provider=endpoint.name,
            created_at_ms=self._deps.clock.wall_ms(),
        )
        drifted = command.manifest_digest is not None and command.manifest_digest != manifest.manifest_digest
        if drifted or chosen.digest != sequence.adapter_digest:
            raise Poison(record, "render_drift", "the bytes rendered now are not those of the operation's manifest")
        return _Prepared(record, command, chosen, endpoint, rendered, manifest)

    def _outputs(self, item: _Prepared, answer: Acceptance) -> list[Output]:
        spec = item.command.spec
        dispatch = Dispatch(
            operation_id=spec.operation_id,
            tenant=spec.tenant,
            conversation=spec.conversation,
            base_revision=spec.base_revision,
            generation=answer.generation,
            relay=answer.relay,
            mode=item.command.mode,
            manifest_digest=item.manifest.manifest_digest,
            request_digest=item.manifest.request_digest,
            idempotency_key=idempotency_key(spec.operation_id, answer.generation),
            endpoint=item.endpoint.name,
            owner=self._deps.owner,
            boot=self._deps.boot,
            replid=self._deps.replid,
            at_ms=answer.accepted_at_ms,
        )
        # With every generation, not only with the first: its transaction may have been lost with a killed process, and
        # the attempt resolved before the same sequence record came again.
        return [
            output(
                "manifests", item.manifest, tenant=spec.tenant, conversation=spec.conversation, role=ROLE,
                event_id=event_id("manifest", spec.operation_id),
            ),
            output(
                "dispatches", dispatch, tenant=spec.tenant, conversation=spec.conversation, role=ROLE,
                event_id=event_id("dispatch", spec.operation_id, answer.generation, answer.relay),
            ),
        ]  # fmt: skip

    def _relay(self, item: _Prepared, answer: Acceptance, asked_at_boot_ms: int) -> Relay:
        spec = item.command.spec
        return Relay(
            tenant=spec.tenant,
            conversation=spec.conversation,
            operation_id=spec.operation_id,
            generation=answer.generation,
            relay=answer.relay,
            endpoint=item.endpoint,
            manifest_digest=item.manifest.manifest_digest,
            profile=item.manifest.profile,
            normaliser=item.manifest.normaliser,
            method=item.rendered.method,
            path=item.rendered.path,
            headers=dict(item.rendered.headers),
            body=item.rendered.body,
            idempotency_key=idempotency_key(spec.operation_id, answer.generation),
            lease_until_boot_ms=asked_at_boot_ms + self._deps.lease_ms,
        )


def _ask(item: _Prepared) -> Ask:
    return Ask(
        key=item.record.key or b"",
        operation_id=item.command.spec.operation_id,
        expected_generation=item.command.expected_generation,
        source=source_of(item.record),
        manifest_digest=item.manifest.manifest_digest,
        request_digest=item.manifest.request_digest,
        manifest=encode(item.manifest),
        mode=item.command.mode,
    )
