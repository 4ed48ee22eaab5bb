"""A provider simulator in this process, and the official clients that speak to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from turngate.devstack.provider_sim.receive_log import ReceiveLog
from turngate.devstack.provider_sim.script import Plan, Rule, Script
from turngate.devstack.provider_sim.server import serve

TIMEOUT_SECONDS = 30.0
TOOLS = ("weather", "population")


@dataclass
class Simulated:
    """A running simulator. openai and anthropic: official clients, each under a prefix of its own."""

    port: int
    log: Path
    openai: AsyncOpenAI
    anthropic: AsyncAnthropic

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    async def chat(self, text: str = "Hello", **options: Any) -> Any:
        """The chat completion that the official client makes of the stream."""
        functions = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in TOOLS]
        async with self.openai.chat.completions.stream(
            model="gpt-sim", messages=[{"role": "user", "content": text}], tools=functions,
            stream_options={"include_usage": True}, **options,
        ) as stream:  # fmt: skip
            return await stream.get_final_completion()

    async def message(self, text: str = "Hello", **options: Any) -> Any:
        """The message that the official client makes of the stream."""
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS]
        async with self.anthropic.messages.stream(
            model="claude-sim", max_tokens=64, messages=[{"role": "user", "content": text}], tools=tools, **options
        ) as stream:
            return await stream.get_final_message()


@contextlib.asynccontextmanager
async def simulating(folder: Path, script: Script) -> AsyncIterator[Simulated]:
    """A simulator on a free port with its receive log in `folder`."""
    path = folder / "received.jsonl"
    log = ReceiveLog(path)
    runner, port = await serve(script, log, 0, "run")
    base = f"http://127.0.0.1:{port}"
    try:
        async with (
            AsyncOpenAI(
                api_key="k-openai", base_url=f"{base}/openai/v1", max_retries=0, timeout=TIMEOUT_SECONDS
            ) as chat,
            AsyncAnthropic(
                api_key="k-anthropic", base_url=f"{base}/anthropic", max_retries=0, timeout=TIMEOUT_SECONDS
            ) as messages,
        ):
            yield Simulated(port, path, chat, messages)
    finally:
        await runner.cleanup()
        log.close()


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., contextlib.AbstractAsyncContextManager[Simulated]]:
    """Begins a simulator that answers every request by one plan, or by a script."""

    def begin(plan: Plan | None = None, **fields: Any) -> contextlib.AbstractAsyncContextManager[Simulated]:
        chosen = plan or Plan.model_validate(fields)
        return simulating(tmp_path, Script(rules=(Rule(plan=chosen),)))

    return begin


@pytest.fixture
def simulate_script(tmp_path: Path) -> Callable[[Script], contextlib.AbstractAsyncContextManager[Simulated]]:
    return lambda script: simulating(tmp_path, script)
