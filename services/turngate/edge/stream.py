"""GET .../events: a conversation's session events as server-sent events, each the record's own line of JSON.

Control frames carry no id, so a client's last id is always that of an event: `task_state` says where the conversation
stands, `resync_required` that events were lost for this client, `heartbeat` that the connection lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from turngate.edge.answers import Caller, Rejected, answering
from turngate.edge.api import CONVERSATION
from turngate.edge.replay import NOWHERE, Entry, Place, ReplayStore, Snapshot
from turngate.edge.tail import Hub, Subscription
from turngate.schemas.envelope import conversation_key
from turngate.schemas.errors import Retryable

SEND_SECONDS = 30.0
"""A client that takes nothing for so long is cut off."""
SNAPSHOT_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class EventStreams:
    """The route that reads. heartbeat_seconds: between two heartbeats of a stream."""

    caller: Caller
    store: ReplayStore
    hub: Hub
    heartbeat_seconds: float

    def routes(self) -> list[Route]:
        return [Route(f"{CONVERSATION}/events", answering(self.events), methods=["GET"])]

    async def events(self, request: Request) -> Response:
        """What can fail fails here, as an ordinary answer; the stream itself only ends."""
        tenant, conversation = self.caller.conversation(request)
        if request.method != "GET":
            raise Rejected(405, "method_not_allowed", "events are read with GET")
        key = conversation_key(tenant, conversation)
        subscription = await self.hub.subscribe(key)
        try:
            opening, place = await self._opening(key, request.headers.get("last-event-id", ""))
        except BaseException:
            self.hub.unsubscribe(subscription)
            raise
        return _SessionStream(self, key, subscription, opening, place)

    async def _opening(self, key: bytes, last_id: str) -> tuple[list[bytes], Place]:
        """The frames a client begins with, and the place behind which live events go on.

        The subscription is older than what is read here, so nothing falls between the two.
        """
        frames: list[bytes] = []
        place: Place | None = None
        if last_id:
            place = Place.parse(last_id)
            missed = await self.store.since(key, place) if place is not None else None
            if missed is None:
                place = None
                frames.append(control_frame("resync_required", {}))
            else:
                frames += [event_frame(entry) for entry in missed]
                place = missed[-1][0] if missed else place
        if place is None:
            place = await self.store.end(key)
        frames.append(task_state(key, place, await self.store.snapshot(key)))
        return frames, place

    async def live(
        self, key: bytes, subscription: Subscription, frames: list[bytes], place: Place
    ) -> AsyncIterator[bytes]:
        """The opening, then events as they come, until the client or this process ends it."""
        for frame in frames:
            yield frame
        while True:
            item = await subscription.queue.get()
            if subscription.over.is_set():
                return
            if item is None:
                place = NOWHERE
                yield control_frame("resync_required", {})
                yield task_state(key, place, await self._snapshot(key))
            elif item[0] > place:
                place = item[0]
                yield event_frame(item)

    async def _snapshot(self, key: bytes) -> Snapshot:
        """Waits while the bucket is closed: that is just what a client who must resync may meet."""
        while True:
            try:
                return await self.store.snapshot(key)
            except Retryable:
                await asyncio.sleep(SNAPSHOT_RETRY_SECONDS)


class _SessionStream(EventSourceResponse):
    """One client's response; the subscription ends with it, whatever way it ends."""

    def __init__(
        self, streams: EventStreams, key: bytes, subscription: Subscription, opening: list[bytes], place: Place
    ) -> None:
        super().__init__(
            streams.live(key, subscription, opening, place),
            ping=streams.heartbeat_seconds,
            ping_message_factory=_heartbeat,
            send_timeout=SEND_SECONDS,
            sep="\n",
        )
        self._streams = streams
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.hub.unsubscribe(self._subscription)


def event_frame(entry: Entry) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (str(entry[0]).encode(), entry[1])


def control_frame(name: str, value: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(value))


def task_state(key: bytes, place: Place, now: Snapshot) -> bytes:
    """`at`: the last event that surely lies behind this state, null where there is none to name."""
    operation = {"operationId": now.operation_id, "state": now.state, "generation": now.generation}
    tenant, _, conversation = key.decode().partition("/")
    return control_frame(
        "task_state",
        {
            "tenant": tenant,
            "conversation": conversation,
            "at": str(place) if place != NOWHERE else None,
            "revision": now.revision,
            "cancelGeneration": now.cancel_generation,
            "operation": operation if now.operation_id else None,
            "openCalls": now.open_calls,
            "paused": now.paused or None,
            "approvals": [{"callKey": call.call_key, "tool": call.tool} for call in now.approvals],
        },
    )


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(event="heartbeat", data="{}", sep="\n")
