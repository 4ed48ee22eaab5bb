"""Graph rules over nodes, one small function per rule; the codes are DESIGN §11's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from re import Pattern

import orjson

from turngate.domain.sequence.graph import Node, Nodes, messages, turns
from turngate.domain.sequence.pairing import PairingRules
from turngate.domain.sequence.strict import is_strict_object
from turngate.schemas.findings import Finding, HistoryCode

TEXT_KINDS = frozenset({"text", "refusal", "context", "notice"})
_KIND_ROLES: dict[str, frozenset[str]] = {
    "thinking": frozenset({"assistant"}),
    "redacted_thinking": frozenset({"assistant"}),
    "reasoning": frozenset({"assistant"}),
    "tool_call": frozenset({"assistant"}),
    "server_tool_call": frozenset({"assistant"}),
    "server_tool_result": frozenset({"assistant"}),
    "refusal": frozenset({"assistant"}),
    "tool_result": frozenset({"tool"}),
    "context": frozenset({"user"}),
    "notice": frozenset({"user"}),
}
KINDS = frozenset({"text", "image", "document", *_KIND_ROLES})
_CALLER_TRUST = frozenset({"user", "tool", "retrieved", "model"})


@dataclass(frozen=True, slots=True)
class GraphRules:
    """What one API (or our own record) asks of a history.

    call_id / tool_name: the whole text must match. unique_ids: call ids over the conversation.
    empty_arguments: empty text stands for `{}`. signed_thinking: thinking must carry a signature. prefill: a
    final assistant turn is allowed.
    alternate: user and assistant turns take turns. user_after_tool: user text may follow results directly.
    """

    pairing: PairingRules = field(default_factory=PairingRules)
    call_id: Pattern[str] | None = None
    tool_name: Pattern[str] | None = None
    max_tools: int | None = None
    unique_ids: bool = False
    empty_arguments: bool = False
    signed_thinking: bool = False
    prefill: bool = False
    alternate: bool = False
    user_after_tool: bool = True
    blank_is_empty: bool = False


Rule = Callable[[Nodes, GraphRules], Iterator[Finding]]


def known_kinds(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    for node in nodes:
        if node.kind not in KINDS:
            yield node.finding(HistoryCode.UNKNOWN_KIND, "this kind of block is not known")


def unicode_text(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """Every text can be written as UTF-8; half a surrogate pair cannot."""
    for node in nodes:
        texts = (node.text, node.call_id, node.tool, node.arguments, node.signature)
        if any(text is not None and not encodable(text) for text in texts):
            yield node.finding(HistoryCode.INVALID_UNICODE, "text holds half of a surrogate pair")


def kind_roles(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """A block speaks only in a role its kind has, and system text has an operator's trust."""
    for node in nodes:
        allowed = _KIND_ROLES.get(node.kind)
        if allowed is not None and node.role not in allowed:
            yield node.finding(HistoryCode.ROLE_SPOOF, "this kind does not have this role")
        elif node.role == "tool" and not node.is_result:
            yield node.finding(HistoryCode.ROLE_SPOOF, "the tool role carries results only")
        elif node.is_system and (node.kind != "text" or node.trust in _CALLER_TRUST):
            yield node.finding(HistoryCode.ROLE_SPOOF, "only an operator's text has the system role")


def system_first(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    started = False
    for node in nodes:
        if node.is_system and started:
            yield node.finding(HistoryCode.SYSTEM_NOT_FIRST, "system text stands only at the very start")
        started = started or not node.is_system


def content(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """No empty text blocks; a message of nothing but white space is empty where the API says so."""
    for node in nodes:
        if node.kind in TEXT_KINDS and not node.opaque and not node.text:
            yield node.finding(HistoryCode.EMPTY_CONTENT, "the block has no text")
        elif node.kind in ("image", "document") and not node.opaque:
            yield node.finding(HistoryCode.EMPTY_CONTENT, "the block has no data")
    if rules.blank_is_empty:
        for group in messages(nodes):
            if group[0].text and all(node.kind in TEXT_KINDS and not (node.text or "").strip() for node in group):
                yield group[0].finding(HistoryCode.EMPTY_CONTENT, "the turn holds nothing but white space")


def call_ids(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """Ids exist, are unique within their turn (or the conversation), and look as the API wants them."""
    seen: set[str] = set()
    for group in turns(nodes):
        if not rules.unique_ids:
            seen = set()
        for node in group:
            if not (node.is_call or node.is_result):
                continue
            legal = rules.call_id is None or rules.call_id.fullmatch(node.call_id or "") is not None
            if not node.call_id or not legal:
                yield node.finding(HistoryCode.INVALID_CALL_ID, "the API refuses this call id")
            elif node.is_call:
                if node.call_id in seen:
                    yield node.finding(HistoryCode.DUPLICATE_CALL_ID, "two calls share an id")
                seen.add(node.call_id)


def tool_names(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    for node in nodes:
        if not node.is_call:
            continue
        if not node.tool or (rules.tool_name is not None and rules.tool_name.fullmatch(node.tool) is None):
            yield node.finding(HistoryCode.INVALID_TOOL_NAME, "the API refuses this tool name")


def arguments(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """A call's arguments are one whole JSON object, each key once."""
    for node in nodes:
        if not node.is_call or (rules.empty_arguments and node.arguments == ""):
            continue
        if node.arguments is None or not is_strict_object(node.arguments):
            yield node.finding(HistoryCode.INCOMPLETE_ARGUMENTS, "the arguments are not one complete JSON object")


def signatures(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    for node in nodes:
        if rules.signed_thinking and node.kind == "thinking" and not node.signature:
            yield node.finding(HistoryCode.MISSING_SIGNATURE, "thinking has no signature")
        elif rules.signed_thinking and node.kind == "redacted_thinking" and not node.opaque:
            yield node.finding(HistoryCode.MISSING_SIGNATURE, "redacted thinking has no data")


def turn_order(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """Where an API wants roles to alternate, or no user text directly behind results."""
    speakers: list[tuple[str, Node]] = []
    for node in nodes:
        if node.is_system:
            continue
        speaker = "assistant" if node.role == "assistant" else "tool" if node.is_result else "user"
        if not speakers or speakers[-1][0] != speaker or speakers[-1][1].message != node.message:
            speakers.append((speaker, node))
    for (before, earlier), (speaker, node) in pairwise(speakers):
        if not rules.user_after_tool and (before, speaker) == ("tool", "user"):
            yield node.finding(HistoryCode.ROLE_ORDER, "the API takes no user text directly after results")
        wire = (
            "assistant" if before == "assistant" else "user",
            "assistant" if speaker == "assistant" else "user",
        )
        if rules.alternate and wire[0] == wire[1] and earlier.message != node.message:
            yield node.finding(HistoryCode.ROLE_ORDER, "the roles do not alternate")
    if rules.alternate and speakers and speakers[0][0] == "assistant":
        yield speakers[0][1].finding(HistoryCode.ROLE_ORDER, "the conversation does not begin with the user")


def something_to_answer(nodes: Nodes, rules: GraphRules) -> Iterator[Finding]:
    """The last word is the user's or a tool's; open calls and paused turns are judged elsewhere."""
    spoken = [node for node in nodes if not node.is_system]
    if not spoken:
        yield Finding(code=HistoryCode.EMPTY_CONTENT, message="the history holds nothing to answer", path="messages")
        return
    last = spoken[-1]
    paused = last.kind in ("server_tool_call", "server_tool_result")
    open_turn = any(node.is_call for node in spoken if node.turn == last.turn)
    if last.role == "assistant" and not (rules.prefill or paused or open_turn):
        yield last.finding(HistoryCode.ROLE_ORDER, "the last turn is the assistant's, so there is nothing to answer")


RULES: tuple[Rule, ...] = (
    known_kinds,
    unicode_text,
    kind_roles,
    system_first,
    content,
    call_ids,
    tool_names,
    arguments,
    signatures,
    turn_order,
    something_to_answer,
)


def encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        orjson.dumps(text)
    except TypeError:
        return False
    return True
