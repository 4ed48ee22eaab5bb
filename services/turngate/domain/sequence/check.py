"""Every graph rule of a MessageSequence: what its nodes say, what its edges say, and what its digests say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from turngate.domain.sequence.candidate import Candidate
from turngate.domain.sequence.graph import from_sequence
from turngate.domain.sequence.pairing import Pairing, pair
from turngate.domain.sequence.rules import RULES, GraphRules
from turngate.schemas.blocks import Block, ToolEdge, content_digest
from turngate.schemas.digests import text_digest
from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.sequence import MessageSequence, sequence_digest

OWN_RULES = GraphRules(empty_arguments=True)
"""Our own record: provider ids are attributes (any text, repeating across turns), results stand directly
after calls.
"""


def check_sequence(sequence: MessageSequence) -> tuple[Finding, ...]:
    """Findings of every graph rule; empty means the sequence may be rendered."""
    nodes = from_sequence(sequence)
    pairing = pair(nodes, OWN_RULES.pairing)
    return (
        *(finding for rule in RULES for finding in rule(nodes, OWN_RULES)),
        *pairing.findings,
        *missing_findings(pairing),
        *(finding for rule in RECORD_RULES for finding in rule(sequence)),
    )


def judge_sequence(sequence: MessageSequence) -> Candidate:
    """The verdict on a sequence from outside: WAITING where all that is wrong are calls nothing has followed
    yet.
    """
    pairing = pair(from_sequence(sequence), OWN_RULES.pairing)
    return verdict_of(check_sequence(sequence), pairing)


def verdict_of(findings: Iterable[Finding], pairing: Pairing) -> Candidate:
    """READY without errors, WAITING where the only errors are open calls at the end, else REJECTED."""
    found = tuple(findings)
    errors = [finding for finding in found if finding.severity == "error"]
    if not errors:
        return Candidate("READY", found)
    waiting = {node.path for node in pairing.open_end}
    if waiting and all(one.code == HistoryCode.MISSING_RESULT and one.path in waiting for one in errors):
        return Candidate("WAITING", found, "calls_open")
    return Candidate("REJECTED", found)


def missing_findings(pairing: Pairing) -> Iterator[Finding]:
    for node in pairing.missing:
        yield node.finding(HistoryCode.MISSING_RESULT, "this call has no result")


def _places(sequence: MessageSequence) -> Iterator[Finding]:
    """Blocks stand in the order of their turns, an artifact at the end of what it covers; ids are unique."""
    seen: set[str] = set()
    before = (-1, -1)
    for index, block in enumerate(sequence.blocks):
        place = (block.covers[1] if block.covers is not None else block.turn, block.order)
        if place <= before:
            yield _finding(HistoryCode.ROLE_ORDER, "blocks are out of order", index, block)
        if block.turn > sequence.conversation_revision:
            yield _finding(HistoryCode.REVISION_CONFLICT, "a block is newer than the sequence", index, block)
        if block.id in seen:
            yield _finding(HistoryCode.ROLE_ORDER, "two blocks share an id", index, block)
        seen.add(block.id)
        before = place


def _edges(sequence: MessageSequence) -> Iterator[Finding]:
    """One edge per call, in call order, saying of call and result what the blocks say."""
    calls = [(index, block) for index, block in enumerate(sequence.blocks) if block.kind == "tool_call"]
    if len(calls) != len(sequence.tool_edges):
        message = f"{len(calls)} calls and {len(sequence.tool_edges)} tool edges"
        yield Finding(code=HistoryCode.RESULT_MISMATCH, message=message, path="toolEdges")
        return
    results = _results_by_call(sequence.blocks)
    for (index, call), edge in zip(calls, sequence.tool_edges, strict=True):
        yield from _states(edge, index, call)
        raw = call.content.arguments_raw
        digest = text_digest(raw) if raw is not None else None
        if (edge.call_id, edge.tool, edge.arguments_digest) != (call.call_id, call.content.tool, digest):
            yield _finding(HistoryCode.RESULT_MISMATCH, "the edge describes another call", index, call)
        result = results.get(call.id)
        if result is not None and (edge.status != result.content.status or edge.result_id is None):
            yield _finding(HistoryCode.RESULT_MISMATCH, "the edge describes another result", index, call)


def _states(edge: ToolEdge, index: int, call: Block) -> Iterator[Finding]:
    if edge.argument_state == "planned":
        yield _finding(HistoryCode.PLANNED_CALL, "the call was only planned", index, call)
    elif edge.argument_state == "open":
        yield _finding(HistoryCode.INCOMPLETE_ARGUMENTS, "the arguments were never closed", index, call)


def _call_order(sequence: MessageSequence) -> Iterator[Finding]:
    """Results enter context in call order."""
    places: dict[str, int] = {}
    calls_of = -1
    last = -1
    for index, block in enumerate(sequence.blocks):
        if block.kind == "tool_call" and block.call_id is not None:
            if block.turn != calls_of:
                places, calls_of, last = {}, block.turn, -1
            places[block.call_id] = index
        elif block.kind == "tool_result" and block.call_id in places:
            if places[block.call_id] < last:
                yield _finding(HistoryCode.ROLE_ORDER, "results are not in call order", index, block)
            last = max(last, places[block.call_id])


def _digests(sequence: MessageSequence) -> Iterator[Finding]:
    """Every block and the sequence are what their digests name."""
    for index, block in enumerate(sequence.blocks):
        if block.digest != content_digest(block.kind, block.content):
            yield _finding(HistoryCode.RESULT_MISMATCH, "the block is not what its digest names", index, block)
    if sequence.sequence_digest != sequence_digest(sequence):
        message = "the sequence is not what its digest names"
        yield Finding(code=HistoryCode.REVISION_CONFLICT, message=message, path="sequenceDigest")


def _results_by_call(blocks: tuple[Block, ...]) -> dict[str, Block]:
    """Result by the block id of its call: the latest call with that id before it."""
    latest: dict[str, str] = {}
    out: dict[str, Block] = {}
    for block in blocks:
        if block.call_id is None:
            continue
        if block.kind == "tool_call":
            latest[block.call_id] = block.id
        elif block.call_id in latest:
            out.setdefault(latest[block.call_id], block)
    return out


def _finding(code: HistoryCode, message: str, index: int, block: Block) -> Finding:
    return Finding(code=code, message=message, block_id=block.id, call_id=block.call_id, path=f"blocks/{index}")


RECORD_RULES: tuple[Callable[[MessageSequence], Iterator[Finding]], ...] = (
    _places,
    _edges,
    _call_order,
    _digests,
)
