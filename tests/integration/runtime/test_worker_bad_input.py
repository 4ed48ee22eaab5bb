"""Bad records between good ones, on a broker: each ends once where it can be seen, and nothing waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CorruptRecordException, MessageSizeTooLargeError, UnsupportedCodecError
from aiokafka.producer import message_accumulator, producer
from aiokafka.record import default_records

from turngate.runtime.outbound import decoded
from turngate.runtime.records import InputRecord, StepResult
from turngate.schemas.control import Control
from turngate.schemas.envelope import MOVED_HEADER
from turngate.schemas.errors import ConfigurationError
from turngate.schemas.quarantine import QUARANTINE_BYTES_MAX
from turngate.topology.desired import batch_bytes_max
from turngate.topology.groups import ROLES
from turngate.topology.topics import TOPICS

pytestmark = pytest.mark.kafka

BUILDER = "_DefaultRecordBatchBuilderPy"
READERS = ("validator", "ledger", "recovery")
"""Of control. Each is a worker of its own here; what they make of a command is left out."""


class Reading:
    """Reads control commands and writes nothing."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def start(self, start: object) -> None:
        return None

    async def step(self, records: Sequence[InputRecord]) -> StepResult:
        commands = [decoded(Control, record) for record in records if record.topic == "control"]
        self.read += [command.control_id for command in commands]
        return StepResult()

    async def stop(self) -> None:
        return None


def command(number: int) -> bytes:
    plain = {
        "schema": "Control.v1", "tenant": "acme", "conversation": "c", "controlId": f"{number}", "command": "pause",
    }  # fmt: skip
    return json.dumps(plain).encode()


async def letters(lab: Any) -> list[tuple[int, str, str]]:
    """(origin offset, reason, role) of everything that came from control, in order."""
    found = [json.loads(value) for value in await lab.values("dead-letters")]
    return sorted((at["origin"]["offset"], at["reason"], at["role"]) for at in found)


async def test_of_several_readers_one_answers_for_what_none_can_use(lab: Any, wait: Any, key_on: Any) -> None:
    key, limit = key_on(0), TOPICS["control"].bytes_max
    bad: list[tuple[bytes | None, bytes | None, list[tuple[str, str]]]] = [
        (key, None, [("null_value", "validator")]),
        (None, b"{}", [("null_key", "validator")]),
        (b"x" * 60_000, b"{}", [("invalid_key", "validator")]),
        (b"\xff" * 60_000, b"{}", [("invalid_key", "validator")]),
        (key, b" " * (limit + 1), [("oversized_record", "validator")]),
        (key, b"", [("malformed_json", "validator")]),
        (key, b"not json", [("malformed_json", "validator")]),
        (key, b"[]", [("malformed_json", "validator")]),
        (key, b"[" * 60_000, [("malformed_json", "validator")]),
        (key, command(0).replace(b'"0"', b'"\xff"'), [("malformed_json", "validator")]),
        (key, command(0).replace(b".v1", b".v2"), [("unknown_schema", name) for name in sorted(READERS)]),
        (key, b'{"schema":"Control.v1"}', [("invalid_record", name) for name in sorted(READERS)]),
        (key, command(0)[:-1] + b',"revision":' + b"9" * 30 + b"}", [("invalid_record", n) for n in sorted(READERS)]),
    ]
    for number, (bad_key, value, _) in enumerate(bad):
        await lab.produce("control", [(bad_key, value, 0), (key, command(number), 0)])
    handlers = {name: Reading() for name in READERS}
    workers = [lab.worker(lambda number, name=name: handlers[name], role=ROLES[name]) for name in READERS]
    async with lab.running(workers[0]), lab.running(workers[1]), lab.running(workers[2]):
        await wait(lambda: all(len(handler.read) == len(bad) for handler in handlers.values()))
    for handler in handlers.values():
        assert handler.read == [str(number) for number in range(len(bad))]
    for name in READERS:
        assert (await lab.committed("control", 0, ROLES[name])).offset >= 2 * len(bad)
    assert await letters(lab) == [(2 * at, *one) for at, (_, _, expected) in enumerate(bad) for one in expected]
    for record in await lab.read("dead-letters"):
        letter = json.loads(record.value)
        assert len(letter["payload"]["value"]) <= QUARANTINE_BYTES_MAX
        assert letter["payload"]["length"] == len(bad[letter["origin"]["offset"] // 2][1] or b"")


async def test_of_several_readers_one_moves_a_misrouted_record(lab: Any, wait: Any, key_on: Any) -> None:
    key = key_on(3)
    await lab.produce("control", [(key, command(1), 0)], headers=[("ce_id", b"x1")])
    await lab.produce("control", [(key, command(2), 0)], headers=[("h", b"x" * 40_000)])
    handlers = {name: [Reading() for _ in range(4)] for name in READERS}
    workers = [lab.worker(handlers[name].__getitem__, role=ROLES[name]) for name in READERS]
    async with lab.running(workers[0]), lab.running(workers[1]), lab.running(workers[2]):
        await wait(lambda: all(partitions[3].read for partitions in handlers.values()))
    assert {name: [one.read for one in partitions] for name, partitions in handlers.items()} == {
        name: [[], [], [], ["1"]] for name in READERS
    }
    (moved,) = [record for record in await lab.read("control") if record.partition == 3]
    assert (moved.key, moved.value, dict(moved.headers)) == (key, command(1), {"ce_id": b"x1", MOVED_HEADER: b"1"})
    assert await letters(lab) == [(1, "oversized_record", "validator")]
    for name in READERS:
        assert (await lab.committed("control", 0, ROLES[name])).offset >= 2


async def test_the_broker_refuses_what_is_beyond_a_topics_batch_limit(lab: Any, key_on: Any) -> None:
    """So a record that is larger never gets in, and one between the two limits is dead-lettered by its reader."""
    for topic in sorted({topic for role in ROLES.values() for topic in role.inputs}):
        too_large = b"x" * batch_bytes_max(TOPICS[topic])
        with pytest.raises(MessageSizeTooLargeError):
            await lab.produce(topic, [(key_on(0), too_large, 0)])
        assert await lab.read(topic) == []


class Raw(str):
    """A header name of bytes that are no text, as a client in C may write it."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe-trace"


async def test_a_header_name_that_is_no_text_stops_nobody(
    lab: Any, echo: Any, wait: Any, key_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = {number: echo() for number in range(4)}
    async with lab.running(lab.worker(handlers.__getitem__)):
        with monkeypatch.context() as patch:
            # The builder in C takes nothing but text.
            for module in (producer, message_accumulator):
                patch.setattr(module, "DefaultRecordBatchBuilder", getattr(default_records, BUILDER))
            await lab.produce("turn-requests", [(key_on(0), b"odd", None)], headers=[(Raw(), b"1"), ("ce_id", b"x")])
        await lab.produce("turn-requests", [(key_on(number), b"{}", None) for number in range(4)])
        await wait(lambda: sum(len(step) for handler in handlers.values() for step in handler.steps) == 5)
    odd = handlers[0].steps[0][0]
    assert (odd.value, odd.headers) == (b"odd", (("??-trace", b"1"), ("ce_id", b"x")))
    assert await letters(lab) == []


@pytest.mark.parametrize("error", [UnsupportedCodecError, CorruptRecordException])
async def test_a_batch_that_cannot_be_read_stops_the_worker(
    lab: Any, echo: Any, wait: Any, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Going on would lose what the same call had taken of other partitions: their positions have moved."""

    async def getmany(*_: object, **__: object) -> dict[object, object]:
        raise error

    worker = lab.worker(lambda number: echo())
    running = asyncio.create_task(worker.run())
    await wait(lambda: worker.ready or running.done())
    monkeypatch.setattr(AIOKafkaConsumer, "getmany", getmany)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        async with asyncio.timeout(30):
            await running
