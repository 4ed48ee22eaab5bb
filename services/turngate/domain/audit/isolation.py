"""I10: what is late, foreign or rebound is kept in quarantine and changes nothing else."""

from __future__ import annotations

from turngate.domain.audit.index import Attempt, Conversation, Index
from turngate.domain.audit.log import Entry
from turngate.domain.audit.report import Findings
from turngate.schemas.session import SessionEvent
from turngate.schemas.stream import EventsFrame
from turngate.schemas.turn import Receipt, Turn


def check_isolation(index: Index) -> Findings:
    """I10. What is committed or shown comes from dispatched attempts, never from records in quarantine."""
    found = Findings("I10")
    found.count("quarantined records", sum(map(len, index.quarantined.values())))
    handles: dict[str, tuple[Entry, Turn]] = {}
    for operation, turns in index.commits.items():
        entry, turn = turns[0]
        if turn.generation is None or turn.receipt is None:
            continue  # the receipts check says so
        found.count("committed turns")
        attempt = (operation, turn.generation)
        relays = {dispatch.relay for _, dispatch in index.dispatched(attempt)}
        if turn.receipt.relay not in relays:
            why = "a turn was committed from a relay never dispatched"
            _foreign(index, found, (turn.tenant, turn.conversation), why, entry, *index.about(operation))
        _check_frames(index, found, entry, attempt, turn.receipt)
        if turn.receipt.handle is not None:
            first = handles.setdefault(turn.receipt.handle, (entry, turn))
            other = first[1].receipt
            if other is not None and other.manifest_digest != turn.receipt.manifest_digest:
                found.breach("one provider handle is bound to two manifests", first[0], entry)
    _check_events(index, found)
    _check_results(index, found)
    return found


def _foreign(index: Index, found: Findings, conversation: Conversation, why: str, *shown: Entry) -> None:
    if index.cut("dispatches", conversation):
        found.unknown("dispatches no longer reach back to some attempts")
    else:
        found.breach(why, *shown)


def _check_frames(index: Index, found: Findings, entry: Entry, attempt: Attempt, receipt: Receipt) -> None:
    """The events the receipt counts are all there without the frames in quarantine."""
    good: set[int] = set()
    kept: list[Entry] = []
    for place, frame in index.frames.get(attempt, ()):
        if not isinstance(frame, EventsFrame) or frame.relay != receipt.relay:
            continue
        if place.place in index.quarantined:
            kept.append(place)
        else:
            good |= set(range(frame.first_seq, frame.first_seq + len(frame.events)))
    if kept and len(good) < receipt.events:
        quarantine = [one for place in kept for one, _ in index.quarantined[place.place]]
        found.breach("a turn was committed from events in quarantine", entry, *kept, *quarantine)


def _check_events(index: Index, found: Findings) -> None:
    told: set[Attempt] = set()
    for entry, event in index.log.read("session-events", SessionEvent):
        if event.origin or event.operation_id is None or event.generation is None:
            continue
        found.count("session events")
        attempt = (event.operation_id, event.generation)
        dispatches = index.dispatched(attempt)
        foreign = event.relay is not None and event.relay not in {dispatch.relay for _, dispatch in dispatches}
        if attempt not in told and (not dispatches or foreign):
            told.add(attempt)
            why = "the stream shows an attempt that was never dispatched"
            shown = (entry, *index.about(event.operation_id))
            _foreign(index, found, (event.tenant, event.conversation), why, *shown)


def _check_results(index: Index, found: Findings) -> None:
    """A call settled by a result all of whose records lie in quarantine was settled by it nevertheless."""
    places: dict[tuple[Conversation, str, str], list[Entry]] = {}
    for results in index.results.values():
        for place, result in results:
            key = ((result.tenant, result.conversation), result.call_id, result.result_id)
            places.setdefault(key, []).append(place)
    for conversation, revisions in index.turns.items():
        for pairs in revisions.values():
            entry, turn = pairs[0]
            for edge in turn.tool_edges if turn.kind == "tool" else ():
                named = places.get((conversation, edge.call_id, edge.result_id or ""), [])
                if named and all(place.place in index.quarantined for place in named):
                    found.breach("a call was settled by a result in quarantine", entry, *named)
