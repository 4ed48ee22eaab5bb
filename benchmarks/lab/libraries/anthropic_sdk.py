"""anthropic: the message stream; each tool_use block of the final message runs where the stop reason is tool_use."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic

from benchmarks.lab import tools

PACKAGES = ("anthropic",)
APIS = ("messages",)
TOOLS: Any = [
    {"name": name, "description": tools.FUNCTIONS[name].__doc__, "input_schema": schema}
    for name, schema in tools.SCHEMAS.items()
]


def run(case: dict[str, Any], address: str) -> None:
    client = Anthropic(base_url=address, api_key="none", max_retries=0)
    with client.messages.stream(
        model="m", max_tokens=100, messages=[{"role": "user", "content": "x"}], tools=TOOLS
    ) as stream:
        message = stream.get_final_message()
    if message.stop_reason != "tool_use":
        return
    for block in message.content:
        if block.type == "tool_use":
            tools.FUNCTIONS[block.name](**block.input)
