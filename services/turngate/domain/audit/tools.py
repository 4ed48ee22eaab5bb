"""I2 and I5: orders come from committed turns, and every committed call is settled once, in call order."""

from __future__ import annotations

from turngate.domain.audit.index import Conversation, Index
from turngate.domain.audit.log import Entry
from turngate.domain.audit.report import Findings
from turngate.schemas.blocks import Block, ToolEdge
from turngate.schemas.digests import text_digest
from turngate.schemas.session import SessionEvent
from turngate.schemas.tools import ToolOrder
from turngate.schemas.turn import Turn


def call_key(turn: Turn, call_id: str) -> str:
    """callKey = tenant/conversation/revision/callId, by the assistant turn's revision."""
    return f"{turn.tenant}/{turn.conversation}/{turn.revision}/{call_id}"


def calls_of(turn: Turn) -> list[str]:
    """The client calls of an assistant turn, in call order."""
    return [block.call_id for block in turn.blocks if block.kind == "tool_call" and block.call_id is not None]


def check_orders(index: Index) -> Findings:
    """I2. Each order is exactly a call of a committed assistant turn."""
    found = Findings("I2")
    for orders in index.orders.values():
        for entry, order in orders:
            found.count("orders")
            conversation = (order.tenant, order.conversation)
            turns = index.turns.get(conversation, {}).get(order.revision, [])
            if not turns and index.cut("turns", conversation):
                found.unknown("turns no longer reach back to some orders")
                continue
            whys = [_wrong_order(order, turn) for _, turn in turns]
            if None in whys:
                continue
            why = whys[0] if whys else None
            found.breach(
                why or "an order for a call that no committed turn holds",
                entry, *(place for place, _ in turns), *index.about(order.operation_id),
            )  # fmt: skip
    return found


def _wrong_order(order: ToolOrder, turn: Turn) -> str | None:
    if turn.kind != "assistant":
        return "an order names a turn that is no assistant turn"
    edge = next((edge for edge in turn.tool_edges if edge.call_id == order.call_id), None)
    if edge is None or order.call_id not in calls_of(turn):
        return "an order for a call that its turn does not hold"
    if order.call_key != call_key(turn, order.call_id):
        return "an order's call key is not that of its call"
    if order.arguments_digest != edge.arguments_digest:
        return "an order's arguments digest is not that of the committed call"
    if text_digest(order.arguments_raw) != order.arguments_digest:
        return "an order's arguments are not those its digest names"
    if order.schema_digest != edge.schema_digest:
        return "an order's schema digest is not that of the committed call"
    if order.generation != edge.generation or order.operation_id != turn.operation_id:
        return "an order names another response than the one committed"
    return None if order.tool == edge.tool else "an order names another tool than the committed call"


def check_results(index: Index) -> Findings:
    """I5. Each committed call has one terminal result, in call order, shown once; no execution repeats."""
    found = Findings("I5")
    for conversation, revisions in index.turns.items():
        for revision in sorted(revisions):
            entry, turn = revisions[revision][0]
            if turn.kind == "assistant" and calls_of(turn):
                _check_calls(index, found, conversation, entry, turn)
    for key, orders in index.orders.items():
        _check_order_once(index, found, key, orders)
    return found


def _check_calls(index: Index, found: Findings, conversation: Conversation, entry: Entry, turn: Turn) -> None:
    calls = calls_of(turn)
    found.count("calls", len(calls))
    if len(set(calls)) != len(calls):
        found.breach("a call id stands twice in one turn", entry)
    places, blocks, edges, closed = _answers(index, conversation, turn.revision)
    shown = (entry, *places)
    answered = [block.call_id for block in blocks]
    if not answered and not closed:
        found.pending(index.settled, "calls are without a result", entry, *_call_entries(index, turn, calls))
        return
    if sorted(map(str, answered)) != sorted(calls):
        found.breach(
            "the results of a turn are not one for each of its calls",
            *shown,
            *_call_entries(index, turn, calls),
        )
        return
    if answered != calls:
        found.breach("results are not in call order", *shown)
    for call, block in zip(calls, sorted(blocks, key=lambda block: calls.index(str(block.call_id))), strict=True):
        edge = next((edge for edge in edges if edge.call_id == call), None)
        why = _wrong_result(turn, call, block, edge) or _wrong_content(index, turn, call, block, edge)
        if why is not None:
            found.breach(why, *shown, *_call_entries(index, turn, [call]))
        _check_output(index, found, turn, call, block, edge, shown)


def _answers(
    index: Index, conversation: Conversation, revision: int
) -> tuple[list[Entry], list[Block], list[ToolEdge], bool]:
    """The result blocks after an assistant turn, and whether a later assistant turn closes the matter.

    They stand in the tool turn, or (after an interrupt) in the input turn that follows.
    """
    places: list[Entry] = []
    blocks: list[Block] = []
    edges: list[ToolEdge] = []
    revisions = index.turns[conversation]
    for later in sorted(one for one in revisions if one > revision):
        entry, turn = revisions[later][0]
        if turn.kind == "assistant":
            return places, blocks, edges, True
        results = [block for block in turn.blocks if block.kind == "tool_result"]
        if results:
            places.append(entry)
            blocks.extend(results)
            edges.extend(turn.tool_edges)
    return places, blocks, edges, False


def _wrong_result(turn: Turn, call: str, block: Block, edge: ToolEdge | None) -> str | None:
    committed = next(edge for edge in turn.tool_edges if edge.call_id == call)
    if edge is None:
        return "a result has no tool edge"
    if edge.arguments_digest != committed.arguments_digest or edge.generation != committed.generation:
        return "a result answers another call than the committed one"
    if edge.status is None or edge.result_id is None:
        return "a result's edge is still open"
    return None if edge.status == block.content.status else "a result's status differs from its edge"


def _wrong_content(index: Index, turn: Turn, call: str, block: Block, edge: ToolEdge | None) -> str | None:
    """The committed result against the executor's record; a synthetic one has none and never says success."""
    if edge is None:
        return None
    key = call_key(turn, call)
    named = [result for _, result in index.results.get(key, ()) if result.result_id == edge.result_id]
    if not named:
        cut = index.cut("tool-results", (turn.tenant, turn.conversation))
        if edge.status == "success" and key in index.orders and not cut:
            return "a call is settled with success by a result that no executor sent"
        return None
    if any(result.content == block.content.text and result.status == edge.status for result in named):
        return None
    return "a committed result is not what the executor sent"


def _check_output(
    index: Index,
    found: Findings,
    turn: Turn,
    call: str,
    block: Block,
    edge: ToolEdge | None,
    shown: tuple[Entry, ...],
) -> None:
    outputs = index.outputs.get(call_key(turn, call), [])
    places = tuple(entry for entry, _ in outputs)
    if not outputs:
        if index.cut("session-events", (turn.tenant, turn.conversation)):
            found.unknown("the stream of some calls is gone by retention")
        else:
            why = "a settled call has no output on the stream"
            found.pending(index.settled, why, *shown, *_call_entries(index, turn, [call]))
    elif len(outputs) > 1:
        found.breach("a call has more than one terminal output on the stream", *shown, *places)
    elif not _same_output(outputs[0][1], block, edge):
        found.breach("the output on the stream is not the committed result", *shown, *places)


def _same_output(event: SessionEvent, block: Block, edge: ToolEdge | None) -> bool:
    return (event.text, event.result_status, event.result_id) == (
        block.content.text or "",
        block.content.status,
        None if edge is None else edge.result_id,
    )


def _check_order_once(index: Index, found: Findings, key: str, orders: list[tuple[Entry, ToolOrder]]) -> None:
    attempts: dict[int, Entry] = {}
    for entry, order in orders:
        if order.attempt in attempts:
            found.breach("one execution of a call was ordered twice", attempts[order.attempt], entry)
        attempts.setdefault(order.attempt, entry)
    if len({order.idempotency_key for _, order in orders}) > 1:
        found.breach("orders of one call carry different idempotency keys", *(entry for entry, _ in orders))
    if len(orders) > 1 and orders[0][1].side_effects in ("at_most_once", "compensatable"):
        found.breach("a tool that must not be repeated was ordered again", *(entry for entry, _ in orders))
    if key in index.denied:
        found.breach(
            "a denied call was ordered",
            *(entry for entry, _ in orders),
            *(entry for entry, _ in index.denied[key]),
        )


def _call_entries(index: Index, turn: Turn, calls: list[str]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for call in calls:
        key = call_key(turn, call)
        entries += [entry for entry, _ in index.orders.get(key, ())]
        entries += [entry for entry, _ in index.results.get(key, ())]
        entries += [entry for entry, _ in index.outputs.get(key, ())]
    return tuple(entries)
