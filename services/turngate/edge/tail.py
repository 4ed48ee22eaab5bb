"""Live events for the clients of this process: one poller reads all open conversations' buffers and fans out.

A subscriber has a bounded queue. Whoever cannot keep up is cut off, and comes back with the id of its last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.edge.replay import NOWHERE, Entry, Place, ReplayStore
from turngate.runtime.redis.scripts import RedisUnavailable
from turngate.schemas.errors import Retryable

POLL_MS = 100
"""How long the poller waits in Redis; so long a new subscription may take to be part of the wait."""
REDIS_AWAY_SECONDS = 0.5
QUEUE_EVENTS_MAX = 1_000


class TooManyStreams(Retryable):
    """This process serves as many streams as it may; another instance has room, or this one has later."""

    code = "too_many_streams"


class StreamsClosed(Retryable):
    """This process is stopping; another instance serves the stream."""

    code = "stopping"


@dataclass(slots=True, eq=False)
class Subscription:
    """One client's view of a conversation's live events. Items are events, or None where some are lost for good."""

    feed: Feed
    queue: asyncio.Queue[Entry | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_EVENTS_MAX))
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where the client fell behind or the process stops: the stream ends."""

    def put(self, item: Entry | None) -> None:
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            self.over.set()

    def end(self) -> None:
        """Ends the stream, also one that waits for an event."""
        self.over.set()
        self.put(None)


@dataclass(slots=True, eq=False)
class Feed:
    """One conversation with clients here. place: of the last event that was handed on."""

    key: bytes
    place: Place
    subscriptions: set[Subscription] = field(default_factory=set[Subscription])

    def take(self, entries: list[Entry]) -> None:
        """Hands events on, with a mark before them where they do not follow the last one."""
        for place, value in entries:
            follows = place == Place(self.place.epoch or place.epoch, self.place.n + 1)
            if not follows:
                self.hand_on(None)
            self.place = place
            self.hand_on((place, value))

    def hand_on(self, item: Entry | None) -> None:
        for subscription in self.subscriptions:
            subscription.put(item)


class Hub:
    """All feeds of this process. `run` is its poller."""

    def __init__(self, store: ReplayStore, *, streams_max: int, check_seconds: float) -> None:
        self._store = store
        self._streams_max = streams_max
        self._check_seconds = check_seconds
        self._feeds: dict[str, Feed] = {}
        self._some = asyncio.Event()
        self._closed = False
        self._count = 0

    async def subscribe(self, key: bytes) -> Subscription:
        """Everything that is appended from now on; `unsubscribe` ends it.

        Raises TooManyStreams, StreamsClosed or RedisUnavailable.
        """
        stream = self._store.stream_of(key)
        place = await self._store.end(key) if stream not in self._feeds else NOWHERE
        if self._closed:
            raise StreamsClosed("this process is stopping")
        if self._count >= self._streams_max:
            raise TooManyStreams("too many streams are open in this process")
        # No await from here on: a feed that is there has a place, and its poller sees the new subscription.
        feed = self._feeds.setdefault(stream, Feed(key, place))
        subscription = Subscription(feed)
        feed.subscriptions.add(subscription)
        self._count += 1
        self._some.set()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """The client is gone; done twice it changes nothing."""
        feed = subscription.feed
        if subscription not in feed.subscriptions:
            return
        feed.subscriptions.remove(subscription)
        self._count -= 1
        if not feed.subscriptions:
            del self._feeds[self._store.stream_of(feed.key)]
        if not self._feeds and not self._closed:
            self._some.clear()

    def close(self) -> None:
        """Ends every stream and takes no more; the poller ends too."""
        self._closed = True
        self._some.set()
        for feed in self._feeds.values():
            for subscription in feed.subscriptions:
                subscription.end()

    async def run(self, now: Callable[[], float]) -> None:
        """Polls until `close`. now: a monotonic clock, in seconds."""
        checked = now()
        while True:
            await self._some.wait()
            if self._closed:
                return
            try:
                await self._poll()
                if now() - checked >= self._check_seconds:
                    await self._check()
                    checked = now()
            except RedisUnavailable:
                await asyncio.sleep(REDIS_AWAY_SECONDS)

    async def _poll(self) -> None:
        places = {stream: feed.place for stream, feed in self._feeds.items()}
        for stream, entries in (await self._store.tail(places, POLL_MS)).items():
            feed = self._feeds.get(stream)
            # A feed that closed and opened again meanwhile begins at a place of its own.
            if feed is not None and feed.place == places[stream]:
                feed.take(entries)

    async def _check(self) -> None:
        """A clock set back may give a lost buffer's successor a lower epoch: nothing would ever follow our place."""
        feeds = dict(self._feeds)
        for (stream, feed), end in zip(feeds.items(), await self._store.ends(list(feeds)), strict=True):
            if end != NOWHERE and end < feed.place and self._feeds.get(stream) is feed:
                feed.place = NOWHERE
                feed.hand_on(None)
