"""What each API asks of a history, and who reads its form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from turngate.domain.sequence.imported.anthropic import read_anthropic
from turngate.domain.sequence.imported.bedrock import read_bedrock
from turngate.domain.sequence.imported.gemini import read_gemini
from turngate.domain.sequence.imported.openai import read_mistral, read_openai
from turngate.domain.sequence.imported.reader import Imported, JsonObject
from turngate.domain.sequence.imported.responses import read_responses
from turngate.domain.sequence.pairing import PairingRules
from turngate.domain.sequence.rules import GraphRules

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class HistoryProfile:
    """read: plain JSON object to nodes; raises InvalidRecord (unreadable) where it is not this API's form."""

    read: Callable[[JsonObject], Imported]
    rules: GraphRules


PROFILES: Mapping[str, HistoryProfile] = MappingProxyType(
    {
        "openai": HistoryProfile(
            read_openai, GraphRules(call_id=re.compile(r".{1,64}", re.DOTALL), tool_name=_NAME, max_tools=128)
        ),
        "openai-compat": HistoryProfile(read_mistral, GraphRules(tool_name=_NAME, empty_arguments=True)),
        "openai-responses": HistoryProfile(
            read_responses,
            GraphRules(
                pairing=PairingRules(adjacent=False),
                call_id=re.compile(r".{1,64}", re.DOTALL),
                tool_name=re.compile(r"[A-Za-z0-9_-]{1,128}"),
                max_tools=128,
                unique_ids=True,
            ),
        ),
        "anthropic": HistoryProfile(
            read_anthropic,
            GraphRules(
                pairing=PairingRules(same_message=True),
                call_id=re.compile(r"[A-Za-z0-9_-]+"),
                tool_name=_NAME,
                unique_ids=True,
                signed_thinking=True,
                blank_is_empty=True,
            ),
        ),
        "mistral": HistoryProfile(
            read_mistral,
            GraphRules(call_id=re.compile(r"[A-Za-z0-9]{9}"), tool_name=_NAME, user_after_tool=False),
        ),
        "gemini": HistoryProfile(
            read_gemini,
            GraphRules(
                pairing=PairingRules(same_message=True),
                tool_name=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"),
            ),
        ),
        "bedrock": HistoryProfile(
            read_bedrock,
            GraphRules(
                pairing=PairingRules(same_message=True),
                call_id=re.compile(r"[A-Za-z0-9_.:-]{1,64}"),
                tool_name=_NAME,
                alternate=True,
                blank_is_empty=True,
            ),
        ),
    }
)

ALIASES: Mapping[str, str] = MappingProxyType({"openai-chat": "openai", "bedrock-converse": "bedrock"})
"""Adapter names where the profile of the same API is called otherwise."""
