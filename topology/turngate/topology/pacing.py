"""Keeps consumers from spinning on a broker that answers an empty fetch at once instead of waiting.

A Kafka broker holds an empty fetch for `fetch_max_wait_ms`; the embedded one does not, and aiokafka asks again at once:
about 2,400 empty fetches a second for each consumer (measured), most of a core for a fleet. With a broker that waits by
itself this changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

EMPTY_FETCH_SECONDS = 0.015


def pace_empty_fetches(consumer: object, seconds: float = EMPTY_FETCH_SECONDS) -> None:
    """Lets an empty fetch of a started aiokafka consumer last at least so long."""
    fetcher: Any = getattr(consumer, "_fetcher")  # noqa: B009 - aiokafka offers no public way
    fetch: Any = getattr(fetcher, "_proc_fetch_request")  # noqa: B009

    async def paced(*args: Any) -> Any:
        began = asyncio.get_running_loop().time()
        found = await fetch(*args)
        left = began + seconds - asyncio.get_running_loop().time()
        if not found and left > 0:
            # aiokafka cancels its fetches when it stops and expects an answer from them all the same.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(left)
        return found

    setattr(fetcher, "_proc_fetch_request", paced)  # noqa: B010
