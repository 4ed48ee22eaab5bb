"""Frames of a relay: numbered without a gap, none larger than its topic takes, and always an `end`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.dispatcher.relays import Ended, MaySend, Provider, Relay, Relays
from turngate.dispatcher.store import Held, LeaseStore
from turngate.runtime.clock import ManualClock
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.logging import get_log
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import Output
from turngate.runtime.redis.scripts import RedisUnavailable
from turngate.schemas.codec import decode
from turngate.schemas.stream import BeginFrame, EndFrame, EventsFrame, Evidence
from turngate.topology.topics import TOPICS

LARGE = st.sampled_from(["x" * 400_000, "\x01" * 150_000, '"' * 300_000, "ä" * 250_000, "😀" * 200_000])
EVENTS = LARGE | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OPEN_MS = 60_000


class Sink:
    def __init__(self) -> None:
        self.sent: list[Output] = []

    async def send(self, output: Output) -> None:
        self.sent.append(output)

    async def flush(self) -> None:
        return None


class Scripted:
    """A provider and its stream: batches, then an end."""

    def __init__(self, batches: list[list[str]], end: Ended) -> None:
        self._batches = list(batches)
        self._end = end

    async def open(self, relay: Relay, may_send: MaySend) -> Scripted:
        return self

    async def batch(self) -> Sequence[str] | None:
        return self._batches.pop(0) if self._batches else None

    def ended(self) -> Ended:
        return self._end

    async def close(self) -> None:
        return None


def relays_of(provider: Provider, clock: ManualClock, leases: object = None) -> tuple[Relays, Sink]:
    sink = Sink()
    relays = Relays(
        provider=provider, sink=sink, leases=cast(LeaseStore, leases), clock=clock, metrics=Metrics(),
        log=get_log(), owner="d-0", boot=1, lease_ms=1_000, renew_ms=300, open_ms=OPEN_MS,
    )  # fmt: skip
    return relays, sink


def relay_of(clock: ManualClock, *, closes: bool = False, lease_ms: int = 1_000) -> Relay:
    endpoint = Endpoint(
        name="local", api="openai-chat", profile="openai", base_url="http://127.0.0.1:1", close_ends_generation=closes
    )
    return Relay(
        tenant="acme", conversation="c", operation_id="op-1", generation=1, relay=1, endpoint=endpoint,
        manifest_digest="0" * 64, profile="openai", normaliser="openai@1", method="POST", path="/", headers={},
        body=b"", idempotency_key="k", lease_until_boot_ms=clock.boot_ms() + lease_ms,
    )  # fmt: skip


async def frames(batches: list[list[str]], end: Ended, *, closes: bool = False, lease_ms: int = 1_000) -> list[Output]:
    clock = ManualClock()
    relays, sink = relays_of(Scripted(batches, end), clock)
    relays.start([relay_of(clock, closes=closes, lease_ms=lease_ms)])
    await relays.drain(30)
    assert len(relays) == 0
    return sink.sent


@settings(deadline=None, max_examples=40)
@given(batches=st.lists(st.lists(EVENTS, min_size=1, max_size=6), max_size=3))
async def test_frames_hold_every_event_once_and_fit_their_topic(batches: list[list[str]]) -> None:
    begin, *middle, end = await frames(batches, Ended("eof"))
    decode(BeginFrame, begin.value)
    seen: list[str] = []
    for output in middle:
        frame = decode(EventsFrame, output.value)
        assert frame.first_seq == len(seen)
        assert len(output.value) <= TOPICS["stream-events"].bytes_max
        seen += frame.events
    assert seen == [event for batch in batches for event in batch]
    assert decode(EndFrame, end.value).count == len(seen)


@pytest.mark.parametrize(
    ("end", "closes", "evidence"),
    [
        (Ended("notSent"), False, "notSent"),
        (Ended("http", 429, "rate_limited", 5, rejected=True), False, "rejected"),
        (Ended("http", 500, "ambiguous"), False, None),
        (Ended("http", 500, "ambiguous"), True, "connectionClosed"),
        (Ended("reset"), False, None),
        (Ended("reset", error_class="event_too_large"), True, "connectionClosed"),
        (Ended("timeout"), False, None),
    ],
)
async def test_what_an_end_proves(end: Ended, closes: bool, evidence: Evidence | None) -> None:
    frame = decode(EndFrame, (await frames([["a"]], end, closes=closes))[-1].value)
    assert (frame.cause, frame.status, frame.error_class) == (end.cause, end.status, end.error_class)
    assert (frame.retry_after_ms, frame.evidence) == (end.retry_after_ms, evidence)


async def test_a_lapsed_lease_sends_nothing_and_says_so() -> None:
    (only,) = await frames([["a"]], Ended("eof"), lease_ms=0)
    frame = decode(EndFrame, only.value)
    assert (frame.cause, frame.evidence, frame.count) == ("notSent", "notSent", 0)


class Endless(Scripted):
    """Brings an event each time it is asked, once `more` is set, and never ends."""

    def __init__(self) -> None:
        super().__init__([], Ended("eof"))
        self.more = asyncio.Event()
        self.closed = False

    async def batch(self) -> Sequence[str] | None:
        await self.more.wait()
        self.more.clear()
        return ["again"]

    async def close(self) -> None:
        self.closed = True


class Leases:
    """All are renewed but those in `lost`; with `away` Redis does not answer."""

    def __init__(self, *, lost: bool = False, away: bool = False) -> None:
        self._lost, self._away = lost, away

    async def renew(self, held: Sequence[Held]) -> Sequence[Held]:
        if self._away:
            raise RedisUnavailable("away")
        return held if self._lost else []


@pytest.mark.parametrize("away", [False, True])
async def test_a_stream_that_is_open_for_too_long_is_ended_although_it_goes_on(away: bool) -> None:
    provider, clock = Endless(), ManualClock()
    relays, sink = relays_of(provider, clock, leases=Leases(away=away))
    relays.start([relay_of(clock)])
    await until(lambda: len(sink.sent) == 1)
    clock.advance(OPEN_MS - 1)
    await relays.renew()
    provider.more.set()
    await until(lambda: len(sink.sent) == 2)
    assert len(relays) == 1
    clock.advance(1)
    await relays.renew()
    await until(lambda: len(relays) == 0)
    frame = decode(EndFrame, sink.sent[-1].value)
    assert (frame.cause, frame.error_class, frame.count) == ("timeout", "open_too_long", 1)
    assert provider.closed


async def test_one_that_lost_its_fence_is_cancelled_however_old_it_is() -> None:
    provider, clock = Endless(), ManualClock()
    relays, sink = relays_of(provider, clock, leases=Leases(lost=True))
    relays.start([relay_of(clock)])
    provider.more.set()
    await until(lambda: len(sink.sent) == 2)
    clock.advance(OPEN_MS)
    await relays.renew()
    await until(lambda: len(relays) == 0)
    frame = decode(EndFrame, sink.sent[-1].value)
    assert (frame.cause, frame.error_class) == ("cancelled", None)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)
