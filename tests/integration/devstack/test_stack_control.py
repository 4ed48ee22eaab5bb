"""Restarting the servers of a stack that another process runs: the control file and its server."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from redis.asyncio import Redis

from turngate.devstack.base import Stack
from turngate.devstack.control import ControlServer
from turngate.devstack.errors import StackControlUnavailable, StackError
from turngate.devstack.external import ExternalStack
from turngate.devstack.stack import EmbeddedStack, open_stack


async def test_an_external_stack_restarts_through_the_control_file(tmp_path: Path) -> None:
    file = tmp_path / "control.json"
    with EmbeddedStack(data=tmp_path / "data") as served, ControlServer(served, file) as control:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        environ = {
            "TURNGATE_KAFKA": served.kafka_bootstrap,
            "TURNGATE_REDIS": served.redis_url,
            "TURNGATE_STACK_CONTROL": str(file),
        }
        external = open_stack(environ=environ)
        assert isinstance(external, ExternalStack)
        assert external.redis_product == served.redis_product
        async with external:
            before = served.server("redis").pid, served.server("kafka").pid
            await external.restart_redis(graceful=False)
            await external.restart_kafka()
            assert served.server("redis").pid != before[0]
            assert served.server("kafka").pid != before[1]
            await external.start()
        assert external.controllable()
        external.shutdown_sync()
        assert control.shutdown.is_set()
    assert not external.controllable()
    with pytest.raises(StackControlUnavailable, match="nobody answers"):
        external.start_server_sync("redis")


def test_a_stale_or_strange_request_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "control.json"
    stack = EmbeddedStack(data=tmp_path / "data")
    with ControlServer(stack, file) as control:
        client = ExternalStack("", "", kafka_product="", control_file=file)
        address = json.loads(file.read_bytes())
        file.write_text(json.dumps(address | {"token": "0" * 32}))
        with pytest.raises(StackError, match="older than this stack"):
            client.start_server_sync("kafka")
        assert control.answer(b"[]\n") == "not a control request: TypeError"
    assert not stack.server("kafka").running


@pytest.mark.real
async def test_a_real_broker_keeps_records_and_redis_its_data(stack: Stack, redis_prefix: str) -> None:
    """Only under scripts/real_kafka.py: both servers restart in place."""
    assert stack.keeps_kafka_on_kill
    async with Redis.from_url(stack.redis_url) as redis:
        await redis.set(f"{redis_prefix}kept", "yes")
    await stack.restart_redis(graceful=False)
    await stack.restart_kafka(graceful=True)
    async with Redis.from_url(stack.redis_url) as redis:
        assert await redis.get(f"{redis_prefix}kept") == b"yes"
