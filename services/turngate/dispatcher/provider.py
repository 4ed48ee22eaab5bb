"""HTTP to the providers: one request per relay, no redirect, no retry, credentials added at the last moment.

What an error proves is decided by where the request was (traced): before the body was fully written nothing can
have been generated (`notSent`); after that a broken connection proves nothing by itself.
"""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from turngate.dispatcher.relays import Ended, MaySend, Relay
from turngate.runtime.endpoints import Endpoint

CONNECT_SECONDS = 5.0
WRITE_SECONDS = 30.0
IDLE_SECONDS = 300.0
BODY_BYTES_MAX = 64 * 1024
BATCH_EVENTS_MAX = 256

AUTH_STATUS = frozenset({401, 403})
INVALID_STATUS = frozenset({400, 402, 404, 405, 413, 414, 415, 422})
AMBIGUOUS_STATUS = frozenset({408, 409, 499})
OVERLOADED_STATUS = frozenset({503, 529})
NO_MORE_QUOTA = ("insufficient_quota", "credit_balance_exhausted")


class Fenced(Exception):
    """The lease was over right before the first byte."""


@dataclass(slots=True)
class _Progress:
    """How far the request is."""

    may_send: MaySend
    body_written: bool = False

    async def trace(self, name: str, info: Mapping[str, object]) -> None:
        if name.endswith("send_request_headers.started") and not self.may_send():
            raise Fenced
        if name.endswith("send_request_body.complete"):
            self.body_written = True


@asynccontextmanager
async def open_client() -> AsyncGenerator[httpx2.AsyncClient]:
    """The one client of a dispatcher process."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
    timeout = httpx2.Timeout(connect=CONNECT_SECONDS, write=WRITE_SECONDS, read=IDLE_SECONDS, pool=CONNECT_SECONDS)
    async with httpx2.AsyncClient(
        limits=limits, timeout=timeout, follow_redirects=False, trust_env=False, http2=False
    ) as client:
        yield client


class HttpProvider:
    """Sends relays to their endpoints. The host is the endpoint's own, never a record's."""

    def __init__(self, client: httpx2.AsyncClient, now_seconds: Callable[[], float]) -> None:
        self._client = client
        self._now_seconds = now_seconds

    async def open(self, relay: Relay, may_send: MaySend) -> HttpStream:
        """Sends the request; never raises for what the network or the provider does: the stream's end says it."""
        progress = _Progress(may_send)
        request = self._client.build_request(
            relay.method,
            relay.endpoint.base_url.rstrip("/") + relay.path,
            content=relay.body,
            headers=_headers(relay),
            extensions={"trace": progress.trace},
        )
        try:
            response = await self._client.send(request, stream=True)
        except Fenced:
            return HttpStream.over(Ended("notSent"))
        except (httpx2.HTTPError, OSError) as error:
            return HttpStream.over(_broken(error, progress))
        if response.status_code >= 300:
            return HttpStream.over(await self._refused(response))
        return HttpStream.reading(response)

    async def _refused(self, response: httpx2.Response) -> Ended:
        body = b""
        try:
            async for part in response.aiter_bytes():
                body += part
                if len(body) >= BODY_BYTES_MAX:
                    break
        except (httpx2.HTTPError, OSError):
            pass  # the status is known; the body only refines its class
        finally:
            await response.aclose()
        return classify(response.status_code, response.headers, body, self._now_seconds())


class HttpStream:
    """One open response: events are collected as they arrive and taken in batches."""

    def __init__(self, response: httpx2.Response | None, ended: Ended | None) -> None:
        self._response = response
        self._ended = ended
        self._events: list[str] = []
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    def over(cls, ended: Ended) -> HttpStream:
        return cls(None, ended)

    @classmethod
    def reading(cls, response: httpx2.Response) -> HttpStream:
        stream = cls(response, None)
        stream._reader = asyncio.create_task(stream._read(response))
        return stream

    async def batch(self) -> Sequence[str] | None:
        """What has arrived since the last batch, waiting for at least one event; None at the end."""
        while not self._events and self._ended is None:
            self._changed.clear()
            await self._changed.wait()
        if not self._events:
            return None
        events, self._events = self._events, []
        self._room.set()
        return events

    def ended(self) -> Ended:
        assert self._ended is not None, "batch has given None"
        return self._ended

    async def close(self) -> None:
        """Closes the connection, whatever is still to come."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._response is not None:
            await self._response.aclose()

    async def _read(self, response: httpx2.Response) -> None:
        ended = Ended("eof")
        try:
            async for event in httpx2.EventSource(response):
                self._events.append(event.data)
                self._changed.set()
                if len(self._events) >= BATCH_EVENTS_MAX:
                    self._room.clear()
                    await self._room.wait()
        except (httpx2.TimeoutException, TimeoutError):
            ended = Ended("timeout")
        except (httpx2.HTTPError, httpx2.StreamError, OSError, UnicodeDecodeError):
            ended = Ended("reset")
        finally:
            self._ended = ended
            self._changed.set()


def _headers(relay: Relay) -> dict[str, str]:
    """All headers; the credential is read now and kept nowhere."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        **relay.endpoint.headers,
        **relay.headers,
        "x-turngate-operation": relay.operation_id,
        "x-turngate-generation": str(relay.generation),
    }
    if relay.endpoint.idempotent_replay:
        headers["idempotency-key"] = relay.idempotency_key
    return headers | _credential(relay.endpoint)


def _credential(endpoint: Endpoint) -> dict[str, str]:
    secret = endpoint.credential()
    if secret is None:
        return {}
    if endpoint.api == "anthropic":
        return {"x-api-key": secret.get_secret_value()}
    return {"authorization": f"Bearer {secret.get_secret_value()}"}


def _broken(error: Exception, progress: _Progress) -> Ended:
    if not progress.body_written:
        return Ended("notSent")
    return Ended("timeout") if isinstance(error, httpx2.TimeoutException | TimeoutError) else Ended("reset")


def classify(status: int, headers: Mapping[str, str], body: bytes, now_seconds: float) -> Ended:
    """What a non-2xx answer means: its class, whether it proves that nothing was generated, and how long to wait."""
    wait = retry_after_ms(headers, now_seconds)
    if status in AUTH_STATUS:
        return Ended("http", status, "auth", wait, rejected=True)
    if status in INVALID_STATUS or 300 <= status < 400:
        return Ended("http", status, "invalid_request", wait, rejected=True)
    if status == 429:
        spent = any(word.encode() in body for word in NO_MORE_QUOTA)
        return Ended("http", status, "quota" if spent else "rate_limited", wait, rejected=True)
    if status in OVERLOADED_STATUS:
        return Ended("http", status, "overloaded", wait, rejected=True)
    if status in AMBIGUOUS_STATUS or status >= 500:
        return Ended("http", status, "ambiguous", wait)
    return Ended("http", status, "rejected", wait, rejected=True)


def retry_after_ms(headers: Mapping[str, str], now_seconds: float) -> int | None:
    """`retry-after-ms`, else `retry-after` as seconds or as an HTTP date; None where absent or unreadable."""
    exact = headers.get("retry-after-ms", "")
    if exact.isdigit():
        return int(exact)
    value = headers.get("retry-after", "")
    try:
        return max(0, round(float(value) * 1000))
    except ValueError:
        pass
    try:
        return max(0, round((email.utils.parsedate_to_datetime(value).timestamp() - now_seconds) * 1000))
    except (ValueError, TypeError):
        return None
