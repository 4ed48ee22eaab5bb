"""litellm: streamed chunks through stream_chunk_builder; each call runs with json.loads of its text."""

from __future__ import annotations

import json
from typing import Any

import litellm

from benchmarks.lab import tools

litellm.suppress_debug_info = True

PACKAGES = ("litellm",)
APIS = ("chat", "messages")
TOOLS = [
    {"type": "function", "function": {"name": name, "description": function.__doc__, "parameters": tools.SCHEMAS[name]}}
    for name, function in tools.FUNCTIONS.items()
]
MESSAGES = [{"role": "user", "content": "x"}]


def run(case: dict[str, Any], address: str) -> None:
    if case["api"] == "chat":
        route = {"model": "openai/m", "api_base": f"{address}/v1"}
    else:
        route = {"model": "anthropic/m", "api_base": address}
    response = litellm.completion(
        **route, api_key="none", messages=MESSAGES, tools=TOOLS, stream=True, max_retries=0, num_retries=0
    )
    completion = litellm.stream_chunk_builder(list(response), messages=MESSAGES)
    if completion is None:
        raise LookupError("no completion was built")
    for call in completion.choices[0].message.tool_calls or []:
        tools.FUNCTIONS[call.function.name](**json.loads(call.function.arguments))
