"""The verdict on a bare history, and its repair where policy asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from turngate.domain.sequence.candidate import Candidate
from turngate.domain.sequence.check import missing_findings, verdict_of
from turngate.domain.sequence.graph import Node, Nodes
from turngate.domain.sequence.imported.profiles import ALIASES, PROFILES, HistoryProfile
from turngate.domain.sequence.imported.reader import JsonObject, as_object, as_text, items
from turngate.domain.sequence.pairing import pair
from turngate.domain.sequence.rules import RULES, GraphRules
from turngate.schemas.errors import InvalidRecord, Refused
from turngate.schemas.findings import Finding, HistoryCode

Repair = Literal["off", "placeholder"]
_PLAIN_SYSTEM = frozenset({"openai", "openai-compat", "mistral"})
"""Where system text beside the messages is one string: it becomes their first message."""
PLACEHOLDER = "[interrupted — no response captured]"


@dataclass(frozen=True, slots=True)
class Judged:
    """candidate: verdict and findings. nodes: the history as judged, placeholders included."""

    candidate: Candidate
    nodes: Nodes


def find_profile(name: str) -> HistoryProfile:
    """Raises Refused (unsupported_profile)."""
    found = PROFILES.get(ALIASES.get(name, name))
    if found is None:
        raise Refused(f"unknown profile; known: {', '.join(sorted(PROFILES))}", code="unsupported_profile")
    return found


def judge_history(history: JsonObject, profile: str, *, repair: Repair = "off") -> Judged:
    """The verdict on a provider's own messages.

    repair `placeholder`: each call without a result gets a cancelled one with a fixed text, in call order
    directly behind its turn, and a finding of severity `repaired`. Raises Refused (unsupported_profile) or
    InvalidRecord (unreadable).
    """
    known = find_profile(profile)
    _check_form(history, ALIASES.get(profile, profile))
    read = known.read(history)
    nodes = read.nodes
    mended: tuple[Finding, ...] = ()
    if repair == "placeholder":
        nodes, mended = with_placeholders(nodes, known.rules)
    pairing = pair(nodes, known.rules.pairing)
    findings = (
        *read.findings,
        *(finding for rule in RULES for finding in rule(nodes, known.rules)),
        *_tools(history, known.rules),
        *pairing.findings,
        *missing_findings(pairing),
        *mended,
    )
    return Judged(verdict_of(findings, pairing), nodes)


def with_placeholders(nodes: Nodes, rules: GraphRules) -> tuple[Nodes, tuple[Finding, ...]]:
    """The history with a cancelled result for every call that has none."""
    missing = pair(nodes, rules.pairing).missing
    if not missing:
        return nodes, ()
    found = tuple(
        node.finding(HistoryCode.MISSING_RESULT, "a cancelled result was put in", severity="repaired")
        for node in missing
    )
    return tuple(_filled(nodes, {id(node) for node in missing})), found


def _filled(nodes: Nodes, missing: set[int]) -> Iterator[Node]:
    """Each turn with open calls is followed by all its results, in call order, the missing ones made up."""
    index = 0
    while index < len(nodes):
        end = index
        while end < len(nodes) and nodes[end].turn == nodes[index].turn:
            end += 1
        group = nodes[index:end]
        yield from group
        index = end
        calls = [node for node in group if node.is_call]
        if not any(id(call) in missing for call in calls):
            continue
        given: dict[str | None, list[Node]] = {}
        while index < len(nodes) and nodes[index].is_result:
            given.setdefault(nodes[index].call_id, []).append(nodes[index])
            index += 1
        message = group[0].message + 1
        for call in calls:
            yield from (given.pop(call.call_id, ()) if id(call) not in missing else (_placeholder(call, message),))
        for strays in given.values():
            yield from strays


def _placeholder(call: Node, message: int) -> Node:
    """Its turn number is negative, so it is nobody else's."""
    return Node(
        turn=-call.turn,
        message=message,
        role="tool",
        kind="tool_result",
        path=call.path,
        text=PLACEHOLDER,
        call_id=call.call_id,
        status="cancelled",
    )


def _check_form(history: JsonObject, profile: str) -> None:
    """Raises InvalidRecord (unreadable) where system text or tools are of no known form: they would go unread."""
    for name in ("system", "systemInstruction", "instructions"):
        given = history.get(name)
        parts = as_object(given).get("parts") if profile == "gemini" and isinstance(given, dict) else given
        if given is None or isinstance(parts, str):
            continue
        if profile in _PLAIN_SYSTEM or not _objects(parts):
            raise InvalidRecord(f"{name} is neither text nor a list of parts", path=name, code="unreadable")
    tools = history.get("tools")
    if isinstance(tools, dict):
        tools = list(as_object(tools).values())
    if tools is not None and not _objects(tools):
        raise InvalidRecord("tools are neither {name: schema} nor a list of objects", path="tools", code="unreadable")


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in items(value))


def _tools(history: JsonObject, rules: GraphRules) -> Iterator[Finding]:
    """Number and names of the declared tools, in our form {name: schema} or the provider's list."""
    declared = history.get("tools")
    names = list(as_object(declared)) if isinstance(declared, dict) else _listed(declared)
    if rules.max_tools is not None and len(names) > rules.max_tools:
        message = f"{len(names)} tools, the API takes {rules.max_tools}"
        yield Finding(code=HistoryCode.TOO_LARGE, message=message, path="tools")
    for index, name in enumerate(names):
        if rules.tool_name is not None and rules.tool_name.fullmatch(name) is None:
            message = "the API refuses this tool name"
            yield Finding(code=HistoryCode.INVALID_TOOL_NAME, message=message, path=f"tools[{index}]")


def _listed(declared: object) -> list[str]:
    specs = [as_object(one) for one in items(declared)]
    inner = [as_object(spec.get("function") or spec.get("toolSpec")) or spec for spec in specs]
    return [name for spec in inner if (name := as_text(spec.get("name"))) is not None]
