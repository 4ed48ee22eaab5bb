"""openai: the stream helper with pydantic tools; each call of the final completion runs with its parsed arguments."""

from __future__ import annotations

from typing import Any

from openai import OpenAI, pydantic_function_tool

from benchmarks.lab import tools
from benchmarks.lab.libraries.typed import MODELS

PACKAGES = ("openai",)
APIS = ("chat",)
TOOLS = [pydantic_function_tool(model, name=name) for name, model in MODELS.items()]


def run(case: dict[str, Any], address: str) -> None:
    client = OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS) as stream:
        completion = stream.get_final_completion()
    for call in completion.choices[0].message.tool_calls or []:
        parsed = call.function.parsed_arguments
        if parsed is None:
            raise LookupError("a call without parsed arguments: no such tool")
        tools.FUNCTIONS[call.function.name](**parsed.model_dump(exclude_unset=True))
