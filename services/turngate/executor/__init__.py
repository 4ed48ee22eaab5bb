"""The SDK for tool executors: handlers of tools as a worker that executes every order once and answers it.

executor = ToolExecutor(group="weather-tools")

@executor.tool("get_weather")
async def get_weather(args: Arguments, ctx: CallContext) -> str:
    return f"sunny in {args['city']}"

executor.main()
"""

from turngate.executor.tools import Arguments, CallContext, JsonValue, ToolError, ToolHandler, ToolOutput
from turngate.executor.worker import ToolExecutor

__all__ = [
    "Arguments",
    "CallContext",
    "JsonValue",
    "ToolError",
    "ToolExecutor",
    "ToolHandler",
    "ToolOutput",
]
