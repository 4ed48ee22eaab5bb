"""What a worker does with records: transform, isolate poison, move what is misrouted, wait, push back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from turngate.runtime.errors import Poison, Retryable
from turngate.runtime.records import InputRecord, Output, Position, StepResult
from turngate.schemas.envelope import MOVED_HEADER
from turngate.topology.groups import ROLES
from turngate.topology.topics import TOPICS

pytestmark = pytest.mark.kafka

SECRET = b'{"text":"what a user wrote"}'


async def dead_letters(lab: Any) -> list[tuple[str, int, str]]:
    """(origin topic, offset, reason), in order."""
    letters = [json.loads(value) for value in await lab.values("dead-letters")]
    return sorted((at["origin"]["topic"], at["origin"]["offset"], at["reason"]) for at in letters)


async def test_every_record_of_every_input_is_transformed_once(lab: Any, echo: Any, wait: Any) -> None:
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)) as worker:
        keys = [f"acme/c{index}".encode() for index in range(50)]
        await lab.produce("turn-requests", [(key, b"{}", None) for key in keys for _ in range(4)])
        await lab.produce("control", [(key, b"{}", None) for key in keys])
        await wait(lambda: sum(len(r) for h in handlers.values() for r in h.steps) == 250)
        assert worker.statistics().takeovers == 4
    values = await lab.values("verdicts")
    assert len(values) == len(set(values)) == 250
    assert all(handler.stopped == 1 for handler in handlers.values())
    for topic in ("turn-requests", "control"):
        for number in range(4):
            last = max(int(v.split(b"@")[1]) for v in values if v.startswith(f"{topic}/{number}@".encode()))
            assert (await lab.committed(topic, number)).offset == last + 1


async def test_poison_goes_to_the_dead_letters_and_others_go_on(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    bad, good = key_on(1, 0), key_on(1, 1)

    def act(record: InputRecord) -> None:
        if record.offset == 2:
            raise Poison(record, "made_up_reason", "field x")
        if record.offset == 5:
            raise ValueError(record.value)

    handlers = {number: echo(act) for number in range(4)}
    await lab.produce("turn-requests", [((bad if n % 3 == 2 else good), SECRET, None) for n in range(9)])
    worker = lab.worker(handlers.__getitem__)
    async with lab.running(worker):
        await wait(lambda: any(r.offset == 8 for step in handlers[1].steps for r in step))
    assert (await lab.committed("turn-requests", 1)).offset == 9
    assert sorted(await lab.values("verdicts")) == sorted(
        f"turn-requests/1@{n}".encode() for n in range(9) if n not in (2, 5)
    )
    assert await dead_letters(lab) == [
        ("turn-requests", 2, "made_up_reason"),
        ("turn-requests", 5, "handler_error"),
    ]
    for record in await lab.read("dead-letters"):
        letter = json.loads(record.value)
        assert "user wrote" not in letter["detail"]
        headers = dict(record.headers)
        assert headers["turngate_origin"] == f"turn-requests/1@{letter['origin']['offset']}".encode()
        assert headers["turngate_reason"] == letter["reason"].encode()


async def test_unusable_records_never_reach_the_handler(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    key = key_on(2)
    await lab.produce(
        "turn-requests",
        [(key, None, None), (None, SECRET, 2), (b"\xff/\xfe", SECRET, 2), (b"no-slash", SECRET, 2), (key, b"{}", None)],
    )
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)):
        await wait(lambda: bool(handlers[2].steps))
    assert [record.offset for step in handlers[2].steps for record in step] == [4]
    assert [reason for _, _, reason in await dead_letters(lab)] == [
        "null_value", "null_key", "undecodable_key", "invalid_key",
    ]  # fmt: skip
    assert (await lab.committed("turn-requests", 2)).offset == 5


async def test_a_misrouted_record_is_moved_once(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    key = key_on(3)
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)):
        await lab.produce("turn-requests", [(key, b"{}", 0)], headers=[("ce_id", b"x1")])
        await wait(lambda: bool(handlers[3].steps))
        await lab.produce("turn-requests", [(key, b"{}", 1)], headers=[(MOVED_HEADER, b"1")])
        await lab.produce("turn-requests", [(key_on(1), b"{}", 1)])
        await wait(lambda: bool(handlers[1].steps))
    (moved,) = handlers[3].steps[0]
    assert (moved.value, moved.header("ce_id"), moved.header(MOVED_HEADER)) == (b"{}", b"x1", b"1")
    assert handlers[0].steps == []
    assert await dead_letters(lab) == [("turn-requests", 0, "misrouted")]
    assert (await lab.committed("turn-requests", 0)).offset == 1


async def test_an_oversized_output_makes_its_cause_poison(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    class Growing(echo):  # type: ignore[misc]
        async def step(self, records: Sequence[InputRecord]) -> StepResult:
            result = await super().step(records)
            if any(record.value == b"big" for record in records):
                huge = b"x" * (TOPICS["verdicts"].bytes_max + 1)
                result.outputs.append(Output("verdicts", records[0].key or b"", huge))
            return result

    handlers = {number: Growing() for number in range(4)}
    await lab.produce(
        "turn-requests", [(key_on(0), b"{}", None), (key_on(0), b"big", None), (key_on(0, 1), b"{}", None)]
    )
    async with lab.running(lab.worker(handlers.__getitem__)):
        await wait(lambda: any(len(step) == 1 and step[0].offset == 2 for step in handlers[0].steps))
    assert await dead_letters(lab) == [("turn-requests", 1, "oversized_output")]
    assert sorted(await lab.values("verdicts")) == [b"turn-requests/0@0", b"turn-requests/0@2"]


async def test_a_world_that_is_not_ready_loses_nothing(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    down = asyncio.Event()
    tries: list[int] = []

    def act(record: InputRecord) -> None:
        tries.append(record.offset)
        if not down.is_set():
            raise Retryable("Redis does not answer")

    handlers = {number: echo(act) for number in range(4)}
    worker = lab.worker(handlers.__getitem__)
    async with lab.running(worker):
        await lab.produce("turn-requests", [(key_on(0), b"{}", None) for _ in range(5)])
        await wait(lambda: len(tries) >= 3)
        assert not worker.ready
        down.set()
        await wait(lambda: worker.ready)
        await wait(lambda: len(handlers[0].steps) > 3)
    assert await lab.values("verdicts") == [f"turn-requests/0@{n}".encode() for n in range(5)]
    assert await dead_letters(lab) == []


async def test_a_slow_handler_pushes_back_and_stays_in_the_group(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    portion, queue_bytes, value = 5, 400_000, b"x" * 20_000
    released = asyncio.Event()

    class Stuck(echo):  # type: ignore[misc]
        async def step(self, records: Sequence[InputRecord]) -> StepResult:
            await released.wait()
            return await super().step(records)

    handlers = {number: Stuck() if number == 0 else echo() for number in range(4)}
    await lab.produce("turn-requests", [(key_on(0), value, None) for _ in range(300)])
    worker = lab.worker(handlers.__getitem__, queue_bytes_max=queue_bytes, batch_records_max=portion)
    async with lab.running(worker):
        await wait(lambda: worker.statistics().queued * len(value) >= queue_bytes - portion * len(value))
        # Ten round trips of another partition: without pushing back, ten more portions of this one would be queued.
        for number in range(10):
            await lab.produce("turn-requests", [(key_on(1), b"{}", None)])
            await wait(lambda done=number + 1: sum(len(step) for step in handlers[1].steps) == done)
        assert worker.statistics().queued <= queue_bytes // len(value) + portion
        released.set()
        await wait(lambda: sum(len(step) for step in handlers[0].steps) == 300)
        assert (worker.statistics().lost, worker.statistics().takeovers) == (0, 4)
    assert len(await lab.values("verdicts")) == 310


async def test_an_idle_worker_steps_with_nothing_when_asked_to(lab: Any, echo: Any, wait: Any) -> None:
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__, idle_interval_ms=20)):
        await wait(lambda: all(len(handler.steps) >= 3 for handler in handlers.values()))
    assert all(step == [] for handler in handlers.values() for step in handler.steps)


async def test_held_previews_are_seen_at_once_and_committed_soon(lab: Any, echo: Any, wait: Any, key_on: Any) -> None:
    committed: list[float] = []
    loop = asyncio.get_running_loop()

    class Previewing(echo):  # type: ignore[misc]
        async def step(self, records: Sequence[InputRecord]) -> StepResult:
            result = await super().step(records)
            result.hold = True
            result.after_commit.append(lambda: committed.append(loop.time()))
            return result

    handlers = {number: Previewing() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__, hold_ms=1000)):
        began = loop.time()
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: bool(handlers[0].steps))
        while not await lab.read("verdicts", "read_uncommitted"):
            assert not committed
        assert await lab.values("verdicts") == []
        await lab.produce("turn-requests", [(key_on(0), b"{}", None)])
        await wait(lambda: len(committed) == 2)
        assert committed[0] == pytest.approx(committed[1], abs=0.01)
        assert committed[0] - began > 0.9
    assert len(await lab.values("verdicts")) == 2


async def test_a_watermark_is_committed_with_its_metadata_and_restored(
    lab: Any, echo: Any, wait: Any, key_on: Any
) -> None:
    class Watermark(echo):  # type: ignore[misc]
        async def step(self, records: Sequence[InputRecord]) -> StepResult:
            await super().step(records)
            return StepResult(positions={"stream-events": Position(1, str(records[-1].offset + 1))})

    role = ROLES["reassembler"]
    first = {number: Watermark() for number in range(4)}
    await lab.produce("stream-events", [(key_on(2), b"{}", None) for _ in range(5)])
    async with lab.running(lab.worker(first.__getitem__, role=role)):
        await wait(lambda: any(r.offset == 4 for step in first[2].steps for r in step))
    assert await lab.committed("stream-events", 2, role) == Position(1, "5")
    second = {number: Watermark() for number in range(4)}
    async with lab.running(lab.worker(second.__getitem__, role=role)):
        await wait(lambda: bool(second[2].steps))
    assert second[2].starts[0].positions == {"stream-events": Position(1, "5")}
    assert second[2].steps[0][0].offset == 1
    assert second[2].starts[0].term > first[2].starts[0].term
