"""Relays: the streams this process has open. Steps 3 and 4 of the send door, then frames until the stream ends.

A stream belongs to the process that opened it, not to the partition: after a rebalance it goes on relaying. Renewal of
its lease tells when its fence is lost (a cancel, a resolution): then the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from turngate.dispatcher.store import Held, LeaseStore
from turngate.runtime.clock import Clock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.errors import SendFailed
from turngate.runtime.logging import Log
from turngate.runtime.metrics import Metrics
from turngate.runtime.outbound import event_id, output
from turngate.runtime.records import Output
from turngate.schemas.codec import encode
from turngate.schemas.envelope import attempt_headers, cloud_event_headers, conversation_key
from turngate.schemas.errors import Retryable
from turngate.schemas.stream import BeginFrame, EndCause, EndFrame, EventsFrame, Evidence

ROLE = "dispatcher"
FRAME_BYTES_MAX = 512 * 1024
"""Events of one frame as JSON; well below the topic's limit, whatever one read of the socket brought."""
OPEN_TOO_LONG = "open_too_long"
"""Error class of a stream that we ended because of its age, whatever it still brought."""
JSON_BYTES_PER_CHARACTER_MAX = 6
"""A control character: the longest escape JSON has."""


@dataclass(frozen=True, slots=True)
class Relay:
    """One accepted relay: what to send where, and how long its lease is known to last (CLOCK_BOOTTIME ms)."""

    tenant: str
    conversation: str
    operation_id: str
    generation: int
    relay: int
    endpoint: Endpoint
    manifest_digest: str
    profile: str
    normaliser: str
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    idempotency_key: str
    lease_until_boot_ms: int

    @property
    def key(self) -> bytes:
        return conversation_key(self.tenant, self.conversation)

    @property
    def held(self) -> Held:
        return Held(self.key, self.operation_id, self.generation, self.relay)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a provider stream ended. error_class: of `http` the provider table's; else why we ended it ourselves.

    rejected: the answer proves that nothing was generated.
    """

    cause: EndCause
    status: int | None = None
    error_class: str | None = None
    retry_after_ms: int | None = None
    rejected: bool = False


class ProviderStream(Protocol):
    """An open request: batches of raw event texts, then how it ended."""

    async def batch(self) -> Sequence[str] | None:
        """The next events, None at the end."""
        ...

    def ended(self) -> Ended:
        """Known once `batch` has given None."""
        ...

    async def close(self) -> None: ...


class Provider(Protocol):
    """Sends one request, once: no redirect, no retry."""

    async def open(self, relay: Relay, may_send: MaySend) -> ProviderStream: ...


class MaySend(Protocol):
    """Asked right before the first byte (step 3 of the send door)."""

    def __call__(self) -> bool: ...


class FrameSink(Protocol):
    """Where frames go: idempotent, outside transactions, never dropped silently."""

    async def send(self, output: Output) -> None: ...

    async def flush(self) -> None: ...


class Relays:
    """All open streams of one dispatcher process."""

    def __init__(
        self,
        *,
        provider: Provider,
        sink: FrameSink,
        leases: LeaseStore,
        clock: Clock,
        metrics: Metrics,
        log: Log,
        owner: str,
        boot: int,
        lease_ms: int,
        renew_ms: int,
        open_ms: int,
        streams_max: int = 2_000,
    ) -> None:
        self._provider = provider
        self._sink = sink
        self._leases = leases
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._owner = owner
        self._boot = boot
        self._lease_ms = lease_ms
        self._renew_ms = renew_ms
        self._open_ms = open_ms
        self._slots = asyncio.Semaphore(streams_max)
        self._open: dict[tuple[str, int, int], _Running] = {}

    def start(self, relays: Sequence[Relay]) -> None:
        """Begins the relays of an acknowledged transaction; returns at once."""
        for relay in relays:
            running = _Running(relay, relay.lease_until_boot_ms)
            self._open[(relay.operation_id, relay.generation, relay.relay)] = running
            running.task = asyncio.create_task(
                self._run(running), name=f"relay {relay.operation_id}/{relay.generation}"
            )
        self._metrics.open_streams.set(len(self._open))

    def __len__(self) -> int:
        return len(self._open)

    async def renew_forever(self) -> None:
        """Renews every lease. An attempt that lost its fence or was open for too long closes its connection."""
        while True:
            await asyncio.sleep(self._renew_ms / 1000)
            await self.renew()

    async def renew(self) -> None:
        """One round of renewal."""
        running = list(self._open.values())
        if not running:
            return
        asked_at = self._clock.boot_ms()
        for one in running:
            if one.opened_boot_ms is not None and asked_at - one.opened_boot_ms >= self._open_ms:
                one.expire()
        try:
            lost = set(await self._leases.renew([one.relay.held for one in running]))
        except Retryable as error:
            # A live owner whose lease lapsed goes on while no resolution has begun (DESIGN §6).
            self._log.warning("lease_renewal_failed", code=error.code, streams=len(running))
            return
        for one in running:
            if one.relay.held in lost:
                one.lose()
            else:
                one.lease_until_boot_ms = asked_at + self._lease_ms

    async def drain(self, seconds: float) -> None:
        """Waits for open streams to end, then closes what is left; their `end` says so."""
        tasks = [one.task for one in self._open.values() if one.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._sink.flush()

    # --- one relay -----------------------------------------------------------------------------------------------

    async def _run(self, running: _Running) -> None:
        relay = running.relay
        try:
            async with self._slots:
                await self._relay(running)
        except SendFailed as error:
            # The lease runs out, recovery takes over: nothing is lost, the attempt becomes UNKNOWN.
            self._log.error("frames_not_delivered", code=error.code, operation=relay.operation_id)
        finally:
            self._open.pop((relay.operation_id, relay.generation, relay.relay), None)
            self._metrics.open_streams.set(len(self._open))

    async def _relay(self, running: _Running) -> None:
        relay = running.relay
        count = 0
        stream: ProviderStream | None = None
        may_be_sent = False
        try:
            if not self._may_send(running):
                await self._sink.send(self._end(relay, Ended("notSent"), 0))
                return
            running.opened_boot_ms = self._clock.boot_ms()
            await self._sink.send(self._begin(relay))
            may_be_sent = True
            stream = await self._provider.open(relay, lambda: self._may_send(running))
            while True:
                batch = await stream.batch()
                if batch is None:
                    break
                for chunk in _chunks(batch):
                    await self._sink.send(self._events(relay, count, chunk))
                    count += len(chunk)
            await self._sink.send(self._end(relay, stream.ended(), count))
        except asyncio.CancelledError:
            if stream is not None:
                await stream.close()
            await asyncio.shield(self._sink.send(self._end(relay, running.closed(may_be_sent), count)))
            if not running.lost and not running.expired:
                raise
        finally:
            if stream is not None:
                await stream.close()

    def _may_send(self, running: _Running) -> bool:
        return not running.lost and self._clock.boot_ms() < running.lease_until_boot_ms

    def _address(self, relay: Relay) -> dict[str, object]:
        return {
            "tenant": relay.tenant,
            "conversation": relay.conversation,
            "operation_id": relay.operation_id,
            "generation": relay.generation,
            "relay": relay.relay,
        }

    def _frame(self, relay: Relay, frame: BeginFrame | EndFrame, *identity: str | int) -> Output:
        return output(
            "stream-events",
            frame,
            tenant=relay.tenant,
            conversation=relay.conversation,
            role=ROLE,
            event_id=event_id("frame", relay.operation_id, relay.generation, relay.relay, *identity),
            headers=attempt_headers(relay.operation_id, relay.generation, relay.relay),
        )

    def _begin(self, relay: Relay) -> Output:
        frame = BeginFrame.model_validate(
            {
                **self._address(relay),
                "profile": relay.profile,
                "normaliser": relay.normaliser,
                "manifest_digest": relay.manifest_digest,
                "owner": self._owner,
                "boot": self._boot,
            }
        )
        return self._frame(relay, frame, "begin")

    def _events(self, relay: Relay, first: int, events: Sequence[str]) -> Output:
        frame = EventsFrame.model_construct(
            tenant=relay.tenant,
            conversation=relay.conversation,
            operation_id=relay.operation_id,
            generation=relay.generation,
            relay=relay.relay,
            profile=relay.profile,
            first_seq=first,
            events=tuple(events),
        )
        ident = f"{relay.operation_id}/{relay.generation}/{relay.relay}/{first}"
        return Output(
            topic="stream-events",
            key=relay.key,
            value=encode(frame),
            headers=cloud_event_headers(frame, event_id=ident, source=ROLE)
            + attempt_headers(relay.operation_id, relay.generation, relay.relay),
        )

    def _end(self, relay: Relay, ended: Ended, count: int) -> Output:
        frame = EndFrame.model_validate(
            {
                **self._address(relay),
                "cause": ended.cause,
                "count": count,
                "status": ended.status,
                "error_class": ended.error_class,
                "retry_after_ms": ended.retry_after_ms,
                "evidence": _evidence(relay.endpoint, ended),
            }
        )
        return self._frame(relay, frame, "end")


@dataclass(slots=True)
class _Running:
    """A relay being worked on."""

    relay: Relay
    lease_until_boot_ms: int
    opened_boot_ms: int | None = None
    task: asyncio.Task[None] | None = None
    lost: bool = False
    expired: bool = False

    def closed(self, may_be_sent: bool) -> Ended:
        """How it ended, given that its task was cancelled."""
        if not may_be_sent:
            return Ended("notSent")
        return Ended("timeout", error_class=OPEN_TOO_LONG) if self.expired and not self.lost else Ended("cancelled")

    def lose(self) -> None:
        """Its fence is somebody else's: nothing may be sent any more."""
        self.lost = True
        self._close()

    def expire(self) -> None:
        """It was open for as long as any stream may be."""
        self.expired = True
        self._close()

    def _close(self) -> None:
        if self.task is not None:
            self.task.cancel()


def _evidence(endpoint: Endpoint, ended: Ended) -> Evidence | None:
    """What the owner's own `end` proves: nothing was sent, the provider refused, or the connection is closed where the
    endpoint says that a closed connection ends the generation."""
    if ended.cause == "notSent":
        return "notSent"
    if ended.cause == "http" and ended.rejected:
        return "rejected"
    return "connectionClosed" if endpoint.close_ends_generation else None


def _chunks(events: Sequence[str]) -> list[Sequence[str]]:
    """Splits a batch so that no frame outgrows its topic; most batches are one chunk."""
    if sum(map(len, events)) * JSON_BYTES_PER_CHARACTER_MAX <= FRAME_BYTES_MAX:
        return [events]
    chunks: list[Sequence[str]] = []
    current: list[str] = []
    size = 0
    for event in events:
        length = len(orjson.dumps(event))
        if current and size + length > FRAME_BYTES_MAX:
            chunks.append(current)
            current, size = [], 0
        current.append(event)
        size += length
    chunks.append(current)
    return chunks
