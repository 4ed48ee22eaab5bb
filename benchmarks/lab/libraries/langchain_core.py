"""langchain-core: chunks of the chat model added up; each of the sum's tool_calls is given to its tool."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

from benchmarks.lab import tools
from benchmarks.lab.libraries.typed import MODELS

PACKAGES = ("langchain-core", "langchain-openai", "langchain-anthropic")
APIS = ("chat", "messages")
TOOLS = {
    name: StructuredTool.from_function(function, name=name, description=function.__doc__, args_schema=MODELS[name])
    for name, function in tools.FUNCTIONS.items()
}


def model(case: dict[str, Any], address: str) -> BaseChatModel:
    if case["api"] == "chat":
        return ChatOpenAI(model="m", base_url=f"{address}/v1", api_key="none", max_retries=0, use_responses_api=False)
    return ChatAnthropic(model_name="m", base_url=address, api_key="none", max_retries=0, max_tokens_to_sample=100)


def run(case: dict[str, Any], address: str) -> None:
    bound = model(case, address).bind_tools(list(TOOLS.values()))
    full: AIMessageChunk | None = None
    for part in bound.stream("x"):
        assert isinstance(part, AIMessageChunk)
        full = part if full is None else full + part
    if full is None:
        raise LookupError("no chunk came")
    for call in full.tool_calls:
        TOOLS[call["name"]].invoke(call)
    if full.invalid_tool_calls:
        raise ValueError("invalid_tool_calls")
