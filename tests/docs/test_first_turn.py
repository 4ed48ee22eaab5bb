"""The programs of the pages, run as they stand there, against a fleet."""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer

from turngate.devstack.base import Stack
from turngate.devstack.fleet import COMMIT_PATH, DevFleet, FleetPlan
from turngate.devstack.supervisor import ProcessSpec
from turngate.schemas.codec import decode
from turngate.schemas.tools import ToolResult
from turngate.topology.topics import TOPICS

if TYPE_CHECKING:
    from conftest import Fence

PAGE = "docs/first-turn.md"
ANSWER_SECONDS = 90.0


def block(fences: list[Fence], page: str, name: str) -> str:
    (text,) = [fence.text for fence in fences if (fence.page, fence.name) == (page, name)]
    return text


def put_script(url: str, text: str) -> None:
    request = urllib.request.Request(f"{url}/_sim/script", text.encode(), method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


async def run(program: Path, env: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    return out.decode()


async def results_of(kafka: str, prefix: str, count: int) -> list[ToolResult]:
    """The first tool results on the topic."""
    consumer = AIOKafkaConsumer(
        TOPICS["tool-results"].full_name(prefix), bootstrap_servers=kafka, auto_offset_reset="earliest"
    )
    found: list[ToolResult] = []
    async with asyncio.timeout(ANSWER_SECONDS), consumer:
        async for record in consumer:
            if dict(record.headers)["ce_type"].endswith(b"ToolResult.v1"):
                found.append(decode(ToolResult, record.value))
                if len(found) == count:
                    break
    return found


@pytest.mark.kafka
@pytest.mark.timeout(240)
@pytest.mark.parametrize("worker", [PAGE, "README.md"])
async def test_a_reader_gets_the_answer(
    worker: str, stack: Stack, fences: list[Fence], topic_prefix: str, tmp_path: Path
) -> None:
    """Question, tool call, the page's executor, answer: what docs/first-turn.md promises; also with README's worker."""
    prefix = topic_prefix.rstrip(".")
    for page, name in ((PAGE, "ask.py"), (worker, "weather.py")):
        (tmp_path / name).write_text(block(fences, page, name))
    env = {**os.environ, "TURNGATE_KAFKA": stack.kafka_bootstrap, "TURNGATE_TOPIC_PREFIX": prefix}
    plan = FleetPlan(folder=tmp_path / "fleet", prefix=prefix, partitions=2, tenants="*", roles=COMMIT_PATH)
    async with DevFleet(stack, plan) as fleet:
        await asyncio.to_thread(put_script, fleet.url("provider-sim"), block(fences, PAGE, "script.json"))
        argv = (sys.executable, str(tmp_path / "weather.py"))
        fleet.supervisor.start(ProcessSpec("weather", argv, tmp_path / "weather.log", env))
        told = await run(tmp_path / "ask.py", env)
        (result,) = await results_of(stack.kafka_bootstrap, prefix, 1)
    lines = told.splitlines()
    kinds = ["input", "assistant", "tool", "assistant"]
    assert lines[:-1] == [f"revision {number}: {kind}" for number, kind in enumerate(kinds, 1)]
    assert lines[-1] == "It is 11 degrees in Oslo."
    assert (result.status, result.content) == ("success", "Oslo: 11 degrees")
