"""I3 and the receipts: the chain of committed turns, and that everything written in it recomputes."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.domain.audit.index import Conversation, Index
from turngate.domain.audit.log import Entry
from turngate.domain.audit.report import Findings
from turngate.schemas.blocks import content_digest
from turngate.schemas.digests import EMPTY_HISTORY, history_digest, text_digest
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.stream import EndFrame
from turngate.schemas.turn import Receipt, Turn, turn_digest


def check_one_turn(index: Index) -> Findings:
    """I3. One turn for each (tenant, conversation, revision), without gaps; one commit for each operation."""
    found = Findings("I3")
    for conversation, revisions in index.turns.items():
        found.count("conversations")
        found.count("turns", len(revisions))
        for pairs in revisions.values():
            if any(turn != pairs[0][1] for _, turn in pairs):
                found.breach("one revision holds different turns", *(entry for entry, _ in pairs))
            elif len(pairs) > 1:
                found.count("identical repeats", len(pairs) - 1)
        _check_gaps(index, found, conversation)
    for operation, pairs in index.commits.items():
        places = {turn.revision for _, turn in pairs}
        if len(places) > 1:
            found.breach("an operation was committed at two revisions", *(entry for entry, _ in pairs))
        for entry, turn in pairs:
            bases = {dispatch.base_revision for _, dispatch in index.dispatches.get(operation, ())}
            if bases and turn.revision - 1 not in bases:
                found.breach("a turn is not on the revision its operation was built on", entry, *index.about(operation))
    return found


def _check_gaps(index: Index, found: Findings, conversation: Conversation) -> None:
    revisions = index.turns[conversation]
    last = max(revisions)
    missing = [revision for revision in range(1, last + 1) if revision not in revisions]
    if not missing:
        return
    if index.cut("turns", conversation):
        found.unknown("turns no longer reach back to revision 1")
        return
    after = min(revision for revision in revisions if revision > missing[0])
    shown = [pairs[0][0] for revision, pairs in sorted(revisions.items()) if revision <= after]
    why = f"revision {missing[0]} is missing below revision {after}"
    if missing == [last - 1]:
        # Two roles publish; the one that committed later may be read first while the other is taken over.
        found.pending(index.settled, why, *shown[-3:])
    else:
        found.breach(why, *shown[-3:])


def check_receipts(index: Index) -> Findings:
    """All digests of turns recompute, and each receipt agrees with its manifest and its stream."""
    found = Findings("receipts")
    for conversation, revisions in index.turns.items():
        previous = EMPTY_HISTORY
        expected = 1
        for revision in sorted(revisions):
            entry, turn = revisions[revision][0]
            found.count("turns")
            for why in _wrong_blocks(turn):
                found.breach(why, entry)
            digests = [block.digest for block in turn.blocks]
            if revision != expected:
                found.unknown("the beginning of some history chains is gone")
            elif turn.replaces is not None:
                # A compaction starts a new chain whose first link is the old chain.
                found.count("compactions")
                if turn.history_digest != history_digest(EMPTY_HISTORY, [previous, *digests]):
                    found.breach("a compaction's chain does not name the one before", entry)
            elif turn.history_digest != history_digest(previous, digests):
                found.breach("a history digest does not continue the one before", entry)
            previous, expected = turn.history_digest, revision + 1
            if turn.kind == "assistant":
                _check_receipt(index, found, conversation, entry, turn)
    return found


def _wrong_blocks(turn: Turn) -> Iterator[str]:
    calls = {block.call_id: block for block in turn.blocks if block.kind == "tool_call"}
    for order, block in enumerate(turn.blocks):
        if block.digest != content_digest(block.kind, block.content):
            yield f"the digest of block {block.id} does not recompute"
        if block.turn != turn.revision or block.order != order:
            yield f"block {block.id} is not where it says"
    for edge in turn.tool_edges:
        call = calls.get(edge.call_id)
        if call is not None and edge.arguments_digest != text_digest(call.content.arguments_raw or ""):
            yield f"the arguments digest of call {edge.call_id} does not recompute"
    if turn.kind == "assistant" and {edge.call_id for edge in turn.tool_edges} != set(calls):
        yield "an assistant turn's edges are not its calls"


def _check_receipt(index: Index, found: Findings, conversation: Conversation, entry: Entry, turn: Turn) -> None:
    receipt = turn.receipt
    if receipt is None or turn.operation_id is None or turn.generation is None:
        found.breach("an assistant turn has no receipt", entry)
        return
    found.count("receipts")
    shown = (entry, *index.about(turn.operation_id))
    if receipt.turn_digest != turn_digest(turn):
        found.breach("a turn digest does not recompute", *shown)
    manifests = index.manifests.get(turn.operation_id, [])
    if not manifests:
        found.unknown("some turns have no manifest in the log")
    elif not any(_agrees(receipt, manifest) for _, manifest in manifests):
        found.breach("a receipt and its manifest disagree", *shown)
    for note in receipt.generations:
        ends = {event.status for _, event in index.ends.get((turn.operation_id, note.generation), ())}
        # An attempt that never began has no request_end; what there is must be what the receipt says.
        if ends and note.status not in ends:
            found.breach("a receipt's generation history differs from the stream's", *shown)
    finals = [note for note in receipt.generations if note.status == "completed"]
    if [note.generation for note in finals] != [turn.generation]:
        found.breach("a receipt does not name the winning generation", *shown)
    _check_counts(index, found, conversation, entry, turn, receipt)


def _agrees(receipt: Receipt, manifest: DispatchManifest) -> bool:
    return (
        receipt.manifest_digest == manifest.manifest_digest
        and receipt.request_digest == manifest.request_digest
        and receipt.adapter_digest == manifest.adapter_digest
        and receipt.toolset_digest == manifest.toolset_digest
        and receipt.policy_digest == manifest.policy_digest
    )


def _check_counts(
    index: Index, found: Findings, conversation: Conversation, entry: Entry, turn: Turn, receipt: Receipt
) -> None:
    """The receipt's event count against the winning relay's own end."""
    assert turn.operation_id is not None
    assert turn.generation is not None
    counts = {
        frame.count
        for _, frame in index.frames.get((turn.operation_id, turn.generation), ())
        if isinstance(frame, EndFrame) and frame.relay == receipt.relay and frame.count is not None
    }
    if counts and receipt.events not in counts:
        found.breach("a receipt counts other events than its relay delivered", entry, *index.about(turn.operation_id))
    elif not counts and index.cut("stream-events", conversation):
        found.unknown("the stream of some turns is gone by retention")
