"""The demo's tool executor, written with the SDK. `python -m turngate.devstack.demo.tools`."""

from __future__ import annotations

import asyncio

from turngate.devstack.demo.toolset import TENANT
from turngate.executor import Arguments, CallContext, ToolExecutor

SLOW_SECONDS = 0.6
"""The first city asked about is answered last, so that results arrive out of call order."""

executor = ToolExecutor(group="demo", tenants={TENANT})


@executor.tool("get_weather")
async def get_weather(args: Arguments, ctx: CallContext) -> str:
    """The weather of a city."""
    city = str(args["city"])
    if city < "M":
        await asyncio.sleep(SLOW_SECONDS)
    return f"{city}: {len(city)} degrees, light wind"


@executor.tool("get_population")
async def get_population(args: Arguments, ctx: CallContext) -> str:
    """The population of a city."""
    return f"{args['city']}: {100_000 * len(str(args['city']))} people"


if __name__ == "__main__":
    executor.main()
