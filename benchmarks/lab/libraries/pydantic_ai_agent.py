"""pydantic-ai: an agent with typed tools, streamed; the agent itself runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import Annotated, Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import Field
from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.lab import tools

PACKAGES = ("pydantic-ai-slim",)
APIS = ("chat", "messages")


def forecast(city: str, days: Annotated[int, Field(ge=1)] | None = None) -> str:
    """Tell the weather of a city for some days."""
    return tools.forecast(city, days)


TYPED = [forecast, tools.transfer, tools.purge, tools.now, tools.scale, tools.count]


def model(case: dict[str, Any], address: str) -> Model:
    if case["api"] == "chat":
        client = AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
        return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    anthropic = AsyncAnthropic(base_url=address, api_key="none", max_retries=0)
    return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic))


async def drain(_: RunContext[None], events: AsyncIterable[object]) -> None:
    """Reads the stream to its end, which makes the agent stream its requests."""
    async for _event in events:
        pass


async def ask(case: dict[str, Any], address: str) -> None:
    agent = Agent(model(case, address), tools=TYPED, retries=0)
    # One request is all there is: the run ends where the tools' results would go back.
    with suppress(UsageLimitExceeded):
        await agent.run("x", event_stream_handler=drain, usage_limits=UsageLimits(request_limit=1))


def run(case: dict[str, Any], address: str) -> None:
    asyncio.run(ask(case, address))
