"""HTTP to the providers: one request per relay, no redirect, no retry, credentials added at the last moment.

What an error proves is decided by where the request was (traced): before the body was fully written nothing can
have been generated (`notSent`); after that a broken connection proves nothing by itself.
"""

from __future__ import annotations

import asyncio
import email.utils
import http.cookiejar
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import orjson

from turngate.dispatcher.relays import Ended, MaySend, Relay
from turngate.domain.adapters.normalisers import find_normaliser
from turngate.domain.stream.body import SERVER_SENT, BodyDecoder, body_decoder, is_json, whole_object
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.sse_text import EVENT_BYTES_MAX
from turngate.runtime.endpoints import Endpoint
from turngate.schemas.errors import ConfigurationError, Refused

RETRY_AFTER_MS_MAX = 24 * 3_600_000
AUTH_STATUS = frozenset({401, 403})
INVALID_STATUS = frozenset({400, 402, 404, 405, 413, 414, 415, 422})
AMBIGUOUS_STATUS = frozenset({408, 409, 499})
OVERLOADED_STATUS = frozenset({503, 529})
NO_MORE_QUOTA = ("insufficient_quota", "credit_balance_exhausted")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds of one request.

    idle_seconds: without a byte of the answer. body_*: of an answer that is no stream, which is read for its class
    alone. event_bytes_max: one event, as it came and as a JSON text; a frame that holds it alone fits its topic.
    waiting_*: events read and not taken yet; beyond either the socket is left alone.
    """

    connect_seconds: float = 5.0
    write_seconds: float = 30.0
    idle_seconds: float = 300.0
    body_seconds: float = 5.0
    body_bytes_max: int = 64 * 1024
    event_bytes_max: int = EVENT_BYTES_MAX
    waiting_events_max: int = 256
    waiting_bytes_max: int = 1024 * 1024


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
async def open_client(limits: HttpLimits | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """The one client of a dispatcher process. It keeps no cookies: they would carry one tenant's session to another."""
    bounds = limits or HttpLimits()
    timeout = httpx2.Timeout(
        connect=bounds.connect_seconds, write=bounds.write_seconds, read=bounds.idle_seconds,
        pool=bounds.connect_seconds,
    )  # fmt: skip
    async with httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100), timeout=timeout,
        follow_redirects=False, trust_env=False, http2=False,
        headers={"user-agent": "turngate", "accept-encoding": "identity"},
        cookies=http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=())),
    ) as client:  # fmt: skip
        yield client


class HttpProvider:
    """Sends relays to their endpoints. The host is the endpoint's own, never a record's."""

    def __init__(
        self, client: httpx2.AsyncClient, now_seconds: Callable[[], float], limits: HttpLimits | None = None
    ) -> None:
        self._client = client
        self._now_seconds = now_seconds
        self._limits = limits or HttpLimits()

    async def open(self, relay: Relay, may_send: MaySend) -> HttpStream:
        """Sends the request; never raises for what the network or the provider does: the stream's end says it."""
        progress = _Progress(may_send)
        try:
            request = self._request(relay, progress)
        except ConfigurationError:
            return HttpStream.over(Ended("notSent", error_class="no_credential"))
        except (Refused, httpx2.InvalidURL, ValueError):
            return HttpStream.over(Ended("notSent", error_class="no_address"))
        try:
            response = await self._client.send(request, stream=True)
        except Fenced:
            return HttpStream.over(Ended("notSent"))
        except (httpx2.HTTPError, OSError) as error:
            return HttpStream.over(_broken(error, progress))
        if 200 <= response.status_code < 300:
            decoder = body_decoder(relay.profile, _media_type(response), self._limits.event_bytes_max)
            if decoder is not None:
                return HttpStream.reading(response, self._limits, decoder)
        body, whole = await self._body(response)
        if 200 <= response.status_code < 300:
            return _no_stream(response, body if whole else b"")
        return HttpStream.over(classify(response.status_code, response.headers, body, self._now_seconds()))

    def _request(self, relay: Relay, progress: _Progress) -> httpx2.Request:
        base = httpx2.URL(relay.endpoint.base_url.rstrip("/"))
        url = httpx2.URL(str(base) + relay.path)
        target = base.raw_path.rstrip(b"/") + relay.path.encode("ascii")
        if (url.scheme, url.netloc, url.userinfo) != (base.scheme, base.netloc, b"") or url.raw_path != target:
            raise Refused("the path of a request does not stay on its endpoint as it was digested", code="no_address")
        return self._client.build_request(
            relay.method, url, content=relay.body, headers=_headers(relay), extensions={"trace": progress.trace}
        )

    async def _body(self, response: httpx2.Response) -> tuple[bytes, bool]:
        """The start of an answer that is no stream, and whether it is the whole of it."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for part in response.aiter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > self._limits.body_bytes_max:
                        return b"".join(parts)[: self._limits.body_bytes_max], False
        except (httpx2.HTTPError, httpx2.StreamError, OSError):
            return b"".join(parts), False  # the status is known; the body only refines its class
        finally:
            await response.aclose()
        return b"".join(parts), True


class HttpStream:
    """One open response: events are collected as they arrive and taken in batches."""

    def __init__(self, ended: Ended | None, events: Sequence[str] = ()) -> None:
        self._ended = ended
        self._events = list(events)
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    def over(cls, ended: Ended, events: Sequence[str] = ()) -> HttpStream:
        return cls(ended, events)

    @classmethod
    def reading(cls, response: httpx2.Response, limits: HttpLimits, decoder: BodyDecoder) -> HttpStream:
        stream = cls(None)
        stream._reader = asyncio.create_task(stream._read(response, limits, decoder))
        return stream

    async def batch(self) -> Sequence[str] | None:
        """What has arrived since the last batch, waiting for at least one event; None at the end."""
        while not self._events and self._ended is None:
            self._changed.clear()
            await self._changed.wait()
        if not self._events:
            return None
        events, self._events = self._events, []
        self._waiting_bytes = 0
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

    def _is_full(self, limits: HttpLimits) -> bool:
        return len(self._events) >= limits.waiting_events_max or self._waiting_bytes >= limits.waiting_bytes_max

    async def _read(self, response: httpx2.Response, limits: HttpLimits, decoder: BodyDecoder) -> None:
        ended = Ended("reset")
        try:
            async for chunk in response.aiter_bytes():
                # Bytes are counted as they came: an event has no more of them as text.
                self._waiting_bytes += len(chunk)
                self._take(decoder.feed(chunk), limits.event_bytes_max)
                if self._events:
                    self._changed.set()
                    if self._is_full(limits):
                        self._room.clear()
                        await self._room.wait()
            self._take(decoder.end(), limits.event_bytes_max)
            ended = Ended("eof")
        except (httpx2.TimeoutException, TimeoutError):
            ended = Ended("timeout")
        except Refused as error:
            ended = Ended("reset", error_class=error.code)
        except (httpx2.HTTPError, httpx2.StreamError, OSError):
            pass
        finally:
            try:
                # Before the end is told: it may count as evidence that the connection is closed.
                await response.aclose()
            finally:
                self._ended = ended
                self._changed.set()

    def _take(self, events: Sequence[str], bytes_max: int) -> None:
        for event in events:
            _bound(event, bytes_max)
            self._events.append(event)


def _bound(event: str, bytes_max: int) -> None:
    """Raises Refused where the event's JSON text is too long; at most six bytes a character."""
    if len(event) * 6 > bytes_max and len(orjson.dumps(event)) > bytes_max:
        raise Refused(f"an event has more than {bytes_max} bytes as JSON", code="event_too_large")


def _media_type(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _no_stream(response: httpx2.Response, body: bytes) -> HttpStream:
    """A 2xx answer that is no event stream. A JSON object, such as an error in a server's own words, is one event for
    the gate to judge; anything else proves nothing."""
    text = whole_object(body) if is_json(_media_type(response)) else None
    if text is not None:
        return HttpStream.over(Ended("eof"), (text,))
    return HttpStream.over(Ended("http", response.status_code, "ambiguous"))


def _headers(relay: Relay) -> dict[str, str]:
    """All headers; the credential is read now and kept nowhere."""
    headers = {
        "content-type": "application/json",
        "accept": _accepted(relay.profile),
        **relay.endpoint.headers,
        **relay.headers,
        "x-turngate-operation": relay.operation_id,
        "x-turngate-generation": str(relay.generation),
    }
    if relay.endpoint.idempotent_replay:
        headers["idempotency-key"] = relay.idempotency_key
    return headers | _credential(relay.endpoint)


def _accepted(profile: str) -> str:
    try:
        return find_normaliser(profile).facts.media_type
    except UnknownNormaliser:
        return SERVER_SENT


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
    if status in AMBIGUOUS_STATUS or status >= 500 or status < 200:
        return Ended("http", status, "ambiguous", wait)
    return Ended("http", status, "rejected", wait, rejected=True)


def retry_after_ms(headers: Mapping[str, str], now_seconds: float) -> int | None:
    """`retry-after-ms`, else `retry-after` as seconds or as an HTTP date, at most a day; None: absent or unreadable."""
    exact = headers.get("retry-after-ms", "")
    if exact.isascii() and exact.isdigit():
        return _wait_ms(exact, 1)
    value = headers.get("retry-after", "")
    try:
        return _wait_ms(value, 1000)
    except ValueError:
        pass
    try:
        at_seconds = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return _wait_ms(str(at_seconds - now_seconds), 1000)


def _wait_ms(number: str, unit_ms: int) -> int:
    value = float(number)
    if math.isnan(value):
        raise ValueError("not a number")
    return round(min(max(value * unit_ms, 0.0), RETRY_AFTER_MS_MAX))
