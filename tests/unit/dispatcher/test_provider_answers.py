"""What a provider's status and headers are taken to mean: which answers prove that nothing was generated."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.dispatcher.provider import RETRY_AFTER_MS_MAX, classify, retry_after_ms
from turngate.dispatcher.relays import Ended
from turngate.schemas.stream import EndFrame

NEVER_EVIDENCE = {408, 499, 500, 502, 504, *range(520, 529)}
NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("status", "word", "rejected"),
    [
        (400, "invalid_request", True), (401, "auth", True), (403, "auth", True), (404, "invalid_request", True),
        (408, "ambiguous", False), (409, "ambiguous", False), (413, "invalid_request", True),
        (418, "rejected", True), (422, "invalid_request", True), (429, "rate_limited", True),
        (499, "ambiguous", False), (500, "ambiguous", False), (502, "ambiguous", False), (503, "overloaded", True),
        (504, "ambiguous", False), (520, "ambiguous", False), (524, "ambiguous", False), (529, "overloaded", True),
        (302, "invalid_request", True), (101, "ambiguous", False),
    ],
)  # fmt: skip
def test_the_class_of_a_status(status: int, word: str, rejected: bool) -> None:
    assert classify(status, {}, b"{}", NOW) == Ended("http", status, word, None, rejected=rejected)


@settings(deadline=None)
@given(st.integers(100, 199) | st.integers(300, 599), st.binary(max_size=40))
def test_only_a_refusal_is_evidence(status: int, body: bytes) -> None:
    end = classify(status, {}, body, NOW)
    assert (end.cause, end.status) == ("http", status)
    if status in NEVER_EVIDENCE or 100 <= status < 200:
        assert not end.rejected


def test_a_429_for_want_of_credit_is_not_a_rate_limit() -> None:
    body = b'{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}'
    assert classify(429, {"retry-after": "3"}, body, NOW).error_class == "quota"
    assert classify(429, {"retry-after": "3"}, b'{"error":{"code":"rate_limit_exceeded"}}', NOW) == Ended(
        "http", 429, "rate_limited", 3000, rejected=True
    )


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "-5"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1500),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9000),
        ({"retry-after": format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True)}, 90_000),
        ({"retry-after": format_datetime(datetime.fromtimestamp(NOW - 90, UTC), usegmt=True)}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, RETRY_AFTER_MS_MAX),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, RETRY_AFTER_MS_MAX),
        ({"retry-after": "9" * 5000}, RETRY_AFTER_MS_MAX),
        ({"retry-after-ms": "9" * 5000}, RETRY_AFTER_MS_MAX),
        ({"retry-after-ms": "\u00b2"}, None),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 -0000"}, 0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, RETRY_AFTER_MS_MAX),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait: int | None) -> None:
    assert retry_after_ms(headers, NOW) == wait


@settings(deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [A-Z+\d-]{1,6}")
)
def test_no_header_text_is_too_odd(value: str) -> None:
    """Whatever a server sends, the end frame can be written."""
    end = classify(429, {"retry-after": value, "retry-after-ms": value}, b"", NOW)
    frame = EndFrame(
        tenant="acme", conversation="c", operation_id="op-1", generation=1, relay=1, cause=end.cause,
        status=end.status, error_class=end.error_class, retry_after_ms=end.retry_after_ms,
    )  # fmt: skip
    assert frame.retry_after_ms is None or frame.retry_after_ms <= RETRY_AFTER_MS_MAX
