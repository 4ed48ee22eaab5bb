"""Calls and results: every call has exactly one result, directly after its turn; the rest has a name each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from turngate.domain.sequence.graph import Node, Nodes, turns
from turngate.schemas.findings import Finding, HistoryCode


@dataclass(frozen=True, slots=True)
class PairingRules:
    """What an API asks of the place of results.

    adjacent: nothing stands between a call's turn and its results. same_message: all of them in the one next
    message.
    """

    adjacent: bool = True
    same_message: bool = False


@dataclass(slots=True)
class _Open:
    """The calls of the latest assistant turn that has any, and what has followed it."""

    calls: dict[str, Node]
    message: int
    answered: set[str] = field(default_factory=set[str])
    interrupted: bool = False
    followed: bool = False

    def unanswered(self) -> list[Node]:
        return [node for call, node in self.calls.items() if call not in self.answered]


@dataclass(frozen=True, slots=True)
class Pairing:
    """findings: all but missing results. missing: calls without one, in order. open_end: those nothing has
    followed.
    """

    findings: tuple[Finding, ...]
    missing: Nodes
    open_end: Nodes


def pair(nodes: Nodes, rules: PairingRules) -> Pairing:
    """Match results to calls of the latest turn with that id; ids may repeat across turns."""
    findings: list[Finding] = []
    ahead = Counter(node.call_id for node in nodes if node.is_call)
    settled: dict[str, bool] = {}
    missing: list[Node] = []
    current: _Open | None = None
    for group in turns(nodes):
        calls = {node.call_id or "": node for node in group if node.is_call}
        if calls:
            missing.extend(_close(current, settled))
            current = _Open(calls, group[0].message)
            ahead.subtract(node.call_id for node in group if node.is_call)
            continue
        if current is not None:
            current.followed = True
        for node in group:
            if node.is_result:
                findings.extend(_result(node, current, settled, ahead, rules))
            elif current is not None:
                current.interrupted = True
    tail = current.unanswered() if current is not None else []
    open_end = () if current is None or current.followed else tuple(tail)
    return Pairing(tuple(findings), (*missing, *tail), open_end)


def _close(current: _Open | None, settled: dict[str, bool]) -> list[Node]:
    if current is None:
        return []
    for call in current.calls:
        settled[call] = call in current.answered
    return current.unanswered()


def _result(
    node: Node,
    current: _Open | None,
    settled: dict[str, bool],
    ahead: Counter[str | None],
    rules: PairingRules,
) -> Iterator[Finding]:
    call_id = node.call_id or ""
    if current is not None and call_id in current.calls:
        if call_id in current.answered:
            yield node.finding(HistoryCode.DUPLICATE_RESULT, "this call already has a result")
            return
        current.answered.add(call_id)
        call = current.calls[call_id]
        if node.tool is not None and call.tool is not None and node.tool != call.tool:
            yield node.finding(HistoryCode.RESULT_MISMATCH, "the result names another tool than its call")
        late = rules.same_message and node.message != current.message + 1
        if rules.adjacent and (current.interrupted or late):
            yield node.finding(HistoryCode.RESULT_NOT_ADJACENT, "a result stands apart from its call's turn")
    elif call_id in settled:
        if settled[call_id]:
            yield node.finding(HistoryCode.DUPLICATE_RESULT, "this call of an earlier turn already has a result")
        else:
            yield node.finding(HistoryCode.RESULT_NOT_ADJACENT, "a result comes after a later turn")
    elif ahead[node.call_id] > 0:
        yield node.finding(HistoryCode.RESULT_BEFORE_CALL, "a result comes before its call")
    else:
        yield node.finding(HistoryCode.ORPHAN_RESULT, "no call has this id")
