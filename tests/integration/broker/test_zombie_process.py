"""A worker process is stopped with an open transaction until another one has its partitions, and goes on later."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from turngate.devstack.base import Stack
from turngate.devstack.ports import free_ports
from turngate.devstack.supervisor import ProcessSpec, Supervisor
from turngate.schemas.envelope import conversation_key
from turngate.topology.groups import ROLES
from turngate.topology.keys import partition_of
from turngate.topology.provision import apply_topology
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.real, pytest.mark.chaos]

PARTITIONS = 1
SESSION_MS = 6_000
"""The shortest that the broker allows as it comes."""
TRANSACTION_MS = 120_000
"""Far beyond the test: what ends the zombie's transaction is the take-over, not the broker's abort of an old one."""
WAIT_SECONDS = 60.0
KEY = conversation_key("acme", "c0")
WORKER = Path(__file__).with_name("stopping_worker.py")


class Line:
    """One partition of records in, verdicts out, and the two processes that may work on it."""

    def __init__(self, stack: Stack, prefix: str, folder: Path, supervisor: Supervisor) -> None:
        self.stack = stack
        self.prefix = prefix
        self.folder = folder
        self.supervisor = supervisor

    def start(self, instance: str, *arguments: str) -> None:
        (port,) = free_ports(1)
        env = {
            "TURNGATE_KAFKA": self.stack.kafka_bootstrap, "TURNGATE_REDIS": self.stack.redis_url,
            "TURNGATE_TOPIC_PREFIX": self.prefix, "TURNGATE_PARTITIONS": str(PARTITIONS),
            "TURNGATE_ENVIRONMENT": "dev", "TURNGATE_INSTANCE_ID": instance, "TURNGATE_HTTP_PORT": str(port),
            "TURNGATE_SESSION_TIMEOUT_MS": str(SESSION_MS), "TURNGATE_TRANSACTION_TIMEOUT_MS": str(TRANSACTION_MS),
            "TURNGATE_DRAIN_SECONDS": "3",
        }  # fmt: skip
        url = f"http://127.0.0.1:{port}/readyz"
        argv = (sys.executable, str(WORKER), *arguments)
        self.supervisor.start(ProcessSpec(instance, argv, self._log(instance), env, ready_url=url))

    def logged(self, instance: str, event: str) -> list[dict[str, object]]:
        """The lines of a process that tell of an event."""
        lines = self._log(instance).read_text().splitlines() if self._log(instance).exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line["event"] == event]

    async def ask(self, *values: bytes) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.stack.kafka_bootstrap)
        await producer.start()
        try:
            for value in values:
                await producer.send_and_wait(self._full("turn-requests"), value, KEY)
        finally:
            await producer.stop()

    async def verdicts(self, isolation: str) -> list[bytes]:
        """What a reader of that isolation is given now."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.stack.kafka_bootstrap, isolation_level=isolation, enable_auto_commit=False
        )
        await consumer.start()
        try:
            place = TopicPartition(self._full("verdicts"), partition_of(KEY, PARTITIONS))
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = (await consumer.end_offsets([place]))[place]
            found: list[bytes] = []
            while await consumer.position(place) < end:
                rows = (await consumer.getmany(place, timeout_ms=100)).get(place, [])
                found += [row.value or b"" for row in rows]
            return found
        finally:
            await consumer.stop()

    async def committed(self) -> int:
        """The group's offset on the input."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.stack.kafka_bootstrap)
        await admin.start()
        try:
            place = TopicPartition(self._full("turn-requests"), partition_of(KEY, PARTITIONS))
            group = ROLES["validator"].group(self.prefix)
            return int((await admin.list_consumer_group_offsets(group, partitions=[place]))[place].offset)
        finally:
            await admin.close()

    def _full(self, topic: str) -> str:
        return TOPICS[topic].full_name(self.prefix)

    def _log(self, instance: str) -> Path:
        return self.folder / f"{instance}.log"


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


async def test_a_stopped_process_neither_writes_nor_moves_offsets_once_it_goes_on(
    stack: Stack, topic_prefix: str, tmp_path: Path
) -> None:
    await apply_topology(stack.kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS, environment="dev")
    async with Supervisor() as supervisor:
        line = Line(stack, topic_prefix, tmp_path, supervisor)
        line.start("zombie", "stop")
        await supervisor.wait_ready("zombie")
        await line.ask(b"1")

        async def stopping() -> bool:
            return bool(line.logged("zombie", "stopping"))

        await until("the first instance stops itself", stopping)
        assert await line.verdicts("read_uncommitted") == [b"zombie 1"]
        assert (await line.committed(), await line.verdicts("read_committed")) == (0, [])

        line.start("successor")
        await line.ask(b"2")
        expected = [b"successor 1", b"successor 2"]

        async def taken_over() -> bool:
            return await line.verdicts("read_committed") == expected and await line.committed() == 2

        await until("the successor does the work of both", taken_over)

        assert line.logged("zombie", "partition_lost") == []
        supervisor.send("zombie", signal.SIGCONT)

        async def lost() -> bool:
            return bool(line.logged("zombie", "partition_lost"))

        await until("the zombie notices", lost)
        assert [entry["reason"] for entry in line.logged("zombie", "partition_lost")] == ["fenced"]
        assert await line.committed() == 2
        assert await line.verdicts("read_committed") == expected

        # Back in the group under the same rules as anybody: alone, it goes on where the successor stopped.
        await supervisor.kill("successor", signal.SIGTERM)
        await line.ask(b"3")

        async def back() -> bool:
            return await line.verdicts("read_committed") == [*expected, b"zombie 3"] and await line.committed() == 3

        await until("the former zombie works again", back)
