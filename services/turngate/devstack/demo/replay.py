"""`turngate demo --replay FILE`: a recorded stream through the whole fleet, compared with what it should become."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from turngate.devstack.demo.watch import Watch
from turngate.devstack.provider_sim.script import Plan, Rule, Script
from turngate.schemas.blocks import BlockContent
from turngate.schemas.errors import ConfigurationError
from turngate.schemas.requests import NewBlock, ToolChoice, TurnOptions, TurnRequest
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest

TENANT = "demo"
ENDPOINTS = {"openai-chat": "openai", "openai": "openai", "openai-compat": "compat", "anthropic": "anthropic"}
STRICT = frozenset({None, "openai", "azure"})
CHUNK_BYTES = 97
"""The body arrives in small pieces, so that events and characters are split."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded stream. expected: text and calls it should commit, where the recording says so."""

    path: Path
    endpoint: str
    schemas: dict[str, object] = field(default_factory=dict[str, object])
    expected: dict[str, object] | None = None
    forced: bool = False
    conversation: str = "replay"

    def script(self) -> Script:
        """Whatever is asked is answered with the recording."""
        return Script(rules=(Rule(plan=Plan(replay=self.path.resolve(), chunk_bytes=CHUNK_BYTES)),))

    def toolset(self) -> Toolset | None:
        """The request's tools; None where it had none."""
        if not self.schemas:
            return None
        tools = tuple(
            ToolDeclaration(
                name=name, input_schema=json.dumps(schema, separators=(",", ":")), side_effects="at_most_once",
                approval="always",
            )
            for name, schema in self.schemas.items()
        )  # fmt: skip
        return Toolset(tenant=TENANT, tools=tools, toolset_digest=toolset_digest(TENANT, tools))


def read_recorded(path: Path, profile: str | None = None) -> Recorded:
    """A capture (JSON with `profile`, `events`, `expected`) or a raw SSE body with its profile named.

    Raises ConfigurationError where the file is neither, or its profile is not one the fleet speaks.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path.name} cannot be read ({error.strerror})") from None
    try:
        capture = json.loads(data)
    except ValueError:
        capture = None
    if not isinstance(capture, dict) or "events" not in capture:
        return Recorded(path, _endpoint(profile or ""))
    word = str(capture.get("profile") or profile or "")
    if word == "openai-chat" and capture.get("provider") not in STRICT:
        word = "openai-compat"
    expected = capture.get("expected")
    expected = expected if isinstance(expected, dict) else None
    calls = (expected or {}).get("tool_calls")
    forced = bool(calls) and (expected or {}).get("stop_reason") == "stop"
    return Recorded(path, _endpoint(word), _schemas(capture, calls), expected, forced)


def _endpoint(profile: str) -> str:
    endpoint = ENDPOINTS.get(profile)
    if endpoint is None:
        raise ConfigurationError(f"profile {profile or '(none)'} cannot be replayed; known: {', '.join(ENDPOINTS)}")
    return endpoint


def _schemas(capture: dict[str, object], calls: object) -> dict[str, object]:
    """Tool schemas of the recorded request, a permissive one for a tool it does not describe."""
    found: dict[str, object] = {}
    tools = capture.get("request_tools")
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict):
            spec = tool.get("function") if isinstance(tool.get("function"), dict) else tool
            assert isinstance(spec, dict)
            schema = spec.get("parameters") or spec.get("input_schema") or {"type": "object"}
            if isinstance(spec.get("name"), str):
                found[str(spec["name"])] = _plain(schema)
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            found.setdefault(str(call.get("name")), {"type": "object"})
    return found


def _plain(schema: object) -> object:
    """Without the providers' own annotation `strict`, which no JSON Schema knows."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if key != "strict" or not isinstance(value, bool)}
    return [_plain(item) for item in schema] if isinstance(schema, list) else schema


async def replay(recorded: Recorded, watch: Watch, say: Callable[[str], None]) -> list[str]:
    """Asks, waits for the outcome, and says what differs from the expectation (nothing where there is none)."""
    toolset = recorded.toolset()
    if toolset is not None:
        await watch.send("toolsets", toolset, TENANT, "toolsets")
    name = next(iter(recorded.schemas), None)
    choice = ToolChoice(mode="forced", tool=name) if recorded.forced else ToolChoice()
    request = TurnRequest(
        tenant=TENANT,
        conversation=recorded.conversation,
        request_id="replay-1",
        blocks=(NewBlock(role="user", content=BlockContent(text="Replay.")),),
        options=TurnOptions(
            endpoint=recorded.endpoint,
            model="recorded",
            max_output_tokens=4096,
            toolset_digest=toolset.toolset_digest if toolset is not None else None,
            tool_choice=choice,
            auto_continue=False,
        ),
    )
    say(f"replaying {recorded.path.name} as {recorded.endpoint}")
    await watch.send("turn-requests", request, TENANT, recorded.conversation)

    def over() -> bool:
        ends = watch.events(recorded.conversation, "request_end")
        final = any(event.retry_in_ms is None for event in ends)
        return final and (len(watch.turns(recorded.conversation)) >= 2 or ends[-1].status != "completed")

    await watch.until("the end of the recorded stream's operation", over, 90.0)
    return _differences(recorded, watch)


def _differences(recorded: Recorded, watch: Watch) -> list[str]:
    expected = recorded.expected
    if expected is None:
        return []
    turns = watch.turns(recorded.conversation)
    blocks = turns[1].blocks if len(turns) > 1 else ()
    text = "".join(block.content.text or "" for block in blocks if block.kind == "text")
    calls = [
        {"id": block.call_id, "name": block.content.tool, "arguments": json.loads(block.content.arguments_raw or "{}")}
        for block in blocks
        if block.kind == "tool_call"
    ]
    wanted = expected.get("tool_calls")
    rows = [row for row in wanted if isinstance(row, dict)] if isinstance(wanted, list) else []
    lines = []
    if (expected.get("text") or "") != text:
        lines.append(f"text of {len(text)} characters, expected {len(str(expected.get('text') or ''))}")
    got = [(call["name"], call["arguments"]) for call in calls]
    if got != [(row.get("name"), row.get("arguments")) for row in rows]:
        lines.append(f"{len(calls)} calls, expected {len(rows)}, or their arguments differ")
    if any(row.get("id") and row.get("id") != call["id"] for row, call in zip(rows, calls, strict=False)):
        lines.append("call ids differ")
    return lines
