"""What tests tell in every profile's format is read as what was told."""

from __future__ import annotations

import json

import pytest

from turngate.domain.stream import Assembler, StreamEnd, compile_toolset
from turngate.testing.dialects import PROFILES, Call, Told, failure, told

TOOLS = {"get_weather": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
ANSWER = Told(
    "h-1",
    1,
    ("Which ", "town?"),
    ("Mild in ", "Bodø ", "🌧."),
    Call("aB3dE6gH9", "get_weather", ('{"ci', 'ty":"Bodø"}')),
)
WITHOUT_THINKING = ("openai", "openai-responses")


def read(profile: str, events: tuple[str, ...]):
    assembler = Assembler(profile=profile, tools=compile_toolset(TOOLS))
    previews = assembler.feed(0, events)
    return assembler.end(StreamEnd("eof", count=len(events))), previews


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_told_is_read(profile: str) -> None:
    outcome, previews = read(profile, told(profile, ANSWER))
    assert [finding for finding in outcome.findings if finding.severity == "error"] == []
    assert (outcome.verdict, outcome.stop) == ("commit", "tool_calls")
    assert outcome.text == "".join(ANSWER.text)
    assert outcome.reasoning == ("" if profile in WITHOUT_THINKING else "".join(ANSWER.thinking))
    (call,) = outcome.calls
    assert json.loads(call.arguments_raw or "") == {"city": "Bodø"}
    shown = "".join(preview.text for preview in previews if preview.kind == "text")
    assert shown == outcome.text


@pytest.mark.parametrize("profile", PROFILES)
def test_an_error_behind_the_terminal_fails_the_turn(profile: str) -> None:
    answer = Told("h-1", 1, (), ("Mild.",))
    assert read(profile, told(profile, answer))[0].stop == "complete"
    outcome, _ = read(profile, (*told(profile, answer), failure(profile, answer)))
    assert (outcome.verdict, outcome.retry) == ("failed", "ladder")
