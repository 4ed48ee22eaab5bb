"""The embedded stack: ready when started, the same through restarts, gone when its parent is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from redis.asyncio import Redis

from turngate.devstack import ports, probe, valkey
from turngate.devstack.base import Stack
from turngate.devstack.errors import StackControlUnavailable, StackError
from turngate.devstack.external import ExternalStack
from turngate.devstack.stack import EmbeddedStack, open_stack
from turngate.schemas.errors import ConfigurationError

PARENT = """
import json, sys
from pathlib import Path
from turngate.devstack.stack import EmbeddedStack
stack = EmbeddedStack(data=Path(sys.argv[1]))
stack.start_sync()
servers = {name: [stack.server(name).pid, stack.server(name).spec.port] for name in ("kafka", "redis")}
print(json.dumps(servers), flush=True)
sys.stdin.read()
"""


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A container's first process may leave the orphan as a zombie: it runs no more and holds nothing.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_servers_end_with_their_parent(tmp_path: Path, number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        servers: dict[str, list[int]] = json.loads(parent.stdout.readline())
        assert all(not gone(pid) and not ports.is_free(port) for pid, port in servers.values())
        parent.send_signal(number)
        parent.wait(10)

        def all_gone() -> bool:
            return all(gone(pid) and ports.is_free(port) for pid, port in servers.values())

        assert probe.wait_until(all_gone, 10.0)
    # And the folder is usable again at once, on the same ports.
    with EmbeddedStack(data=tmp_path) as stack:
        assert stack.kafka_bootstrap.endswith(f":{servers['kafka'][1]}")
        assert stack.redis_url.endswith(f":{servers['redis'][1]}/0")


@pytest.mark.kafka
@pytest.mark.parametrize("graceful", [True, False])
async def test_redis_restart_keeps_data_and_changes_replid(tmp_path: Path, graceful: bool) -> None:
    async with EmbeddedStack(data=tmp_path) as stack:
        async with Redis.from_url(stack.redis_url) as redis:
            await redis.set("kept", "yes")
            before = (await redis.info("replication"))["master_replid"]
        await stack.restart_redis(graceful)
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.get("kept") == b"yes"
            assert (await redis.info("replication"))["master_replid"] != before
        await stack.restart_redis(graceful, keep_data=False)
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.get("kept") is None


async def test_platforms_without_a_valkey_wheel_get_the_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "binary", lambda: None)
    async with EmbeddedStack(data=tmp_path) as stack:
        assert stack.redis_product == stack.kafka_product
        async with Redis.from_url(stack.redis_url) as redis:
            await redis.set("kept", "yes")
        await stack.restart_redis(graceful=True)
        async with Redis.from_url(stack.redis_url) as redis:
            assert await redis.get("kept") == b"yes"


@pytest.mark.kafka
async def test_the_broker_keeps_records_through_a_graceful_restart(fresh_stack: Stack, topic_prefix: str) -> None:
    topic = f"{topic_prefix}kept"
    admin = AIOKafkaAdminClient(bootstrap_servers=fresh_stack.kafka_bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=fresh_stack.kafka_bootstrap) as producer:
        await producer.send_and_wait(topic, b"kept", partition=0)
    if isinstance(fresh_stack, EmbeddedStack):
        await fresh_stack.restart_kafka()
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=fresh_stack.kafka_bootstrap, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        assert (await consumer.getone()).value == b"kept"


async def test_two_stacks_never_share_a_folder(tmp_path: Path) -> None:
    async with EmbeddedStack(data=tmp_path):
        with pytest.raises(StackError, match=r"another run uses .*--folder"):
            EmbeddedStack(data=tmp_path).start_sync()


def test_a_server_that_cannot_start_reports_its_log(tmp_path: Path) -> None:
    stack = EmbeddedStack(data=tmp_path)
    (tmp_path / "redis" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text("broken\n")
    with pytest.raises(StackError, match=r"(?s)redis: .*exit code 1.*Invalid AOF manifest"):
        stack.start_sync()
    assert not stack.server("kafka").running


def test_external_stack_needs_both_addresses_and_a_control_hook() -> None:
    with pytest.raises(ConfigurationError, match="TURNGATE_REDIS"):
        open_stack(environ={"TURNGATE_KAFKA": "127.0.0.1:1"})
    stack = open_stack(environ={"TURNGATE_KAFKA": "127.0.0.1:1", "TURNGATE_REDIS": "redis://127.0.0.1:1/0"})
    assert isinstance(stack, ExternalStack)
    with pytest.raises(StackControlUnavailable, match="TURNGATE_STACK_CONTROL"):
        stack.restart_redis_sync(True)


@pytest.mark.kafka
async def test_session_stack_answers(stack: Stack, redis_prefix: str) -> None:
    async with Redis.from_url(stack.redis_url) as redis:
        key = f"{redis_prefix}x"
        assert await redis.incr(key) == 1
        assert await redis.eval("#!lua\nreturn redis.call('GET', KEYS[1])", 1, key) == b"1"
