"""Scripts asked for at once share round trips, and every caller gets its own answer or error."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from turngate.runtime.redis.scripts import ROUND_TRIP_CALLS_MAX, BucketClosed, RedisUnavailable, Scripts, TermFenced

SCRIPT = "reassembler/lookup_v1"


class Server:
    """Answers each call with its term and argument. trips: calls of each round trip."""

    def __init__(self) -> None:
        self.trips: list[int] = []
        self.away = False

    def pipeline(self, *, transaction: bool) -> Server.Pipe:
        assert not transaction
        return Server.Pipe(self)

    class Pipe:
        def __init__(self, server: Server) -> None:
            self.server = server
            self.calls: list[tuple[Any, ...]] = []

        def evalsha(self, *call: Any) -> None:
            self.calls.append(call)

        async def execute(self, *, raise_on_error: bool) -> list[object]:
            assert not raise_on_error
            self.server.trips.append(len(self.calls))
            await asyncio.sleep(0)
            if self.server.away:
                raise RedisConnectionError("gone")
            return [self._reply(*call[-2:]) for call in self.calls]

        @staticmethod
        def _reply(term: int, argument: str) -> list[bytes]:
            words = {"closed": [b"RECONCILE"], "fenced": [b"FENCED", b"9"]}
            return words.get(argument, [b"ok", str(term).encode(), argument.encode()])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def scripts(server: Server) -> Scripts:
    return Scripts(cast(Any, server), "turngate", "reassembler")


async def test_what_is_asked_for_at_once_goes_out_together(server: Server, scripts: Scripts) -> None:
    count = ROUND_TRIP_CALLS_MAX + 5
    answers = await asyncio.gather(*(scripts.run(SCRIPT, n, 3, f"op-{n}") for n in range(count)))
    assert answers == [[b"ok", b"3", f"op-{n}".encode()] for n in range(count)]
    assert server.trips == [ROUND_TRIP_CALLS_MAX, 5]
    assert await scripts.run(SCRIPT, 0, 4, "later") == [b"ok", b"4", b"later"]
    assert server.trips == [ROUND_TRIP_CALLS_MAX, 5, 1]


async def test_an_error_goes_to_its_own_caller_alone(scripts: Scripts) -> None:
    asked = [scripts.run(SCRIPT, 0, 1, word) for word in ("a", "closed", "fenced", "b")]
    first, closed, fenced, last = await asyncio.gather(*asked, return_exceptions=True)
    assert (first, last) == ([b"ok", b"1", b"a"], [b"ok", b"1", b"b"])
    assert isinstance(closed, BucketClosed)
    assert isinstance(fenced, TermFenced)


async def test_a_lost_round_trip_is_told_to_everybody_in_it(server: Server, scripts: Scripts) -> None:
    server.away = True
    answers = await asyncio.gather(*(scripts.run(SCRIPT, 0, 1, "a") for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisUnavailable] * 3
    server.away = False
    assert await scripts.run(SCRIPT, 0, 1, "a") == [b"ok", b"1", b"a"]


async def test_a_caller_that_is_cancelled_takes_nobody_along(scripts: Scripts) -> None:
    leaving, staying = (asyncio.create_task(scripts.run(SCRIPT, 0, 1, word)) for word in ("a", "b"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == [b"ok", b"1", b"b"]
    with pytest.raises(asyncio.CancelledError):
        await leaving
