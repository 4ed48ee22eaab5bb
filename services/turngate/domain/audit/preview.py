"""I7 and I8: what readers were shown, how it ended, and that it equals what was committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from turngate.domain.audit.index import Attempt, Index
from turngate.domain.audit.log import Entry
from turngate.domain.audit.report import Findings
from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn

TEXT_KINDS = frozenset({"text", "refusal"})
THINKING_KINDS = frozenset({"thinking", "reasoning"})


@dataclass(slots=True)
class ReaderAttempt:
    """What a reader that follows the preview rule (DESIGN §9) has of one attempt.

    texts: (partial type, blockIndex) -> text so far. gap: a delta began beyond what the reader has.
    """

    generation: int
    texts: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    retracted_relay: int = -1
    decided: bool = False
    gap: Entry | None = None

    def delta(self, entry: Entry, event: SessionEvent) -> None:
        """Keep what lies beyond what is there; offsets count Unicode code points."""
        assert event.block_index is not None
        if self.decided or (event.relay or 0) <= self.retracted_relay:
            return
        key = (event.type, event.block_index)
        have = self.texts.get(key, "")
        text = event.text or ""
        offset = len(have) if event.text_offset is None else event.text_offset
        if offset > len(have):
            self.gap = self.gap or entry
        self.texts[key] = have + text[max(0, len(have) - offset) :]

    def retract(self, relay: int | None) -> None:
        """Without a relay the whole generation is over; with one, a later relay of it starts from nothing."""
        self.texts = {}
        self.gap = None
        if relay is None:
            self.decided = True
        else:
            self.retracted_relay = max(self.retracted_relay, relay)


def attempt_of(event: SessionEvent) -> Attempt | None:
    if event.operation_id is None or event.generation is None:
        return None
    return (event.operation_id, event.generation)


def check_previews_end(index: Index) -> Findings:
    """I7. History is committed turns alone; each previewed attempt is committed or retracted, never both."""
    found = Findings("I7")
    _check_sequences(index, found)
    _check_turns(index, found)
    shown: dict[Attempt, Entry] = {}
    for entry, event in index.log.read("session-events", SessionEvent, uncommitted=True):
        attempt = attempt_of(event)
        if attempt is not None and event.type.startswith("partial_") and not event.origin:
            shown.setdefault(attempt, entry)
    found.count("previewed attempts", len(shown))
    for attempt in {**shown, **dict.fromkeys(index.ends), **dict.fromkeys(index.retractions)}:
        _check_attempt(index, found, attempt, shown.get(attempt))
    _check_after_outcome(index, found)
    return found


def _check_attempt(index: Index, found: Findings, attempt: Attempt, preview: Entry | None) -> None:
    ends = index.ends.get(attempt, [])
    turns = [pair for pair in index.commits.get(attempt[0], ()) if pair[1].generation == attempt[1]]
    final = [pair for pair in index.retractions.get(attempt, ()) if _final(pair[1], turns)]
    context = (*([preview] if preview else ()), *index.about(attempt[0]))
    statuses = {event.status for _, event in ends}
    if len(ends) > 1:
        found.breach("an attempt has more than one request_end", *(entry for entry, _ in ends), *context)
    if "completed" in statuses and final:
        found.breach("a preview was both committed and retracted", *context)
    if turns and final:
        found.breach("a retracted attempt was committed", *context)
    if "completed" in statuses and not turns and not _turns_cut(index, ends):
        found.breach("an attempt is completed on the stream without a committed turn", *context)
    if statuses - {"completed"} and turns:
        found.breach("a committed attempt ended otherwise on the stream", *context)
    if preview is None or "completed" in statuses or final:
        return
    if ends:
        found.breach("a preview of an ended attempt was never retracted", *context)
        return
    found.pending(index.settled, "a preview has no end", *context)


def _final(event: SessionEvent, turns: list[tuple[Entry, Turn]]) -> bool:
    """Whether a retraction ends its generation: not where it names a relay below the committed one."""
    if event.relay is None:
        return True
    return not any(turn.receipt is not None and turn.receipt.relay > event.relay for _, turn in turns)


def _turns_cut(index: Index, ends: list[tuple[Entry, SessionEvent]]) -> bool:
    return any(index.cut("turns", (event.tenant, event.conversation)) for _, event in ends)


_FOREIGN_BLOCK = "a sequence holds a block that no turn committed"


def _check_sequences(index: Index, found: Findings) -> None:
    """What is sent as history stands in committed turns, block for block."""
    committed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for conversation, revisions in index.turns.items():
        blocks = (block for pairs in revisions.values() for _, turn in pairs for block in turn.blocks)
        committed[conversation] = {(block.id, block.digest) for block in blocks}
    for operation, commands in index.sequences.items():
        for entry, command in commands:
            found.count("sequences")
            conversation = (command.spec.tenant, command.spec.conversation)
            known = committed.get(conversation, set())
            if all((block.id, block.digest) in known for block in command.sequence.blocks):
                continue
            if index.cut("turns", conversation):
                found.unknown("turns no longer reach back to some sequences")
            elif command.sequence.conversation_revision in index.turns.get(conversation, {}):
                found.breach(_FOREIGN_BLOCK, entry, *index.about(operation))
            else:
                found.pending(index.settled, _FOREIGN_BLOCK, entry, *index.about(operation))


def _check_turns(index: Index, found: Findings) -> None:
    """A committed turn's text and calls are those its own attempt completed on the stream."""
    events: dict[Attempt, list[SessionEvent]] = {}
    for stream in index.session.values():
        for _, event in stream:
            attempt = attempt_of(event)
            if attempt is not None and event.type in ("text", "thinking", "tool_call"):
                events.setdefault(attempt, []).append(event)
    for operation, turns in index.commits.items():
        entry, turn = turns[0]
        assert turn.generation is not None or turn.operation_id is None
        found.count("committed turns")
        attempt = (operation, turn.generation or 0)
        why = _wrong_completes(turn, events.get(attempt, []))
        ended = bool(index.ends.get(attempt))
        if (why or not ended) and index.cut("session-events", (turn.tenant, turn.conversation)):
            found.unknown("the stream of some turns is gone by retention")
        elif not ended:
            why = "a committed turn has no request_end on the stream"
            found.pending(index.settled, why, entry, *index.about(operation))
        elif why is not None:
            found.breach(why, entry, *index.about(operation))


def _wrong_completes(turn: Turn, events: list[SessionEvent]) -> str | None:
    for kinds, kind in ((TEXT_KINDS, "text"), (THINKING_KINDS, "thinking")):
        said = [event.text for event in events if event.type == kind and event.text]
        if sorted(said) != sorted(texts_of(turn, kinds)):
            return f"a committed turn's {kind} is not what its attempt completed on the stream"
    calls = [(event.call_id, event.tool, event.arguments_raw or "{}") for event in events if event.type == "tool_call"]
    blocks = [
        (block.call_id, block.content.tool, block.content.arguments_raw or "{}")
        for block in turn.blocks
        if block.kind == "tool_call"
    ]
    return None if calls == blocks else "a committed turn's calls are not those of its attempt on the stream"


def texts_of(turn: Turn, kinds: Iterable[str]) -> list[str]:
    """The non-empty texts of a turn's blocks of these kinds, in order."""
    return [block.content.text for block in turn.blocks if block.kind in kinds and block.content.text]


def _check_after_outcome(index: Index, found: Findings) -> None:
    """Under read_committed nothing of an attempt follows its outcome."""
    for stream in index.session.values():
        over: dict[Attempt, Entry] = {}
        for entry, event in stream:
            attempt = attempt_of(event)
            if attempt is None:
                continue
            if attempt in over and event.type.startswith("partial_"):
                found.breach("a preview follows the end of its attempt", over[attempt], entry)
            if event.type == "request_end":
                over.setdefault(attempt, entry)


def check_preview_text(index: Index) -> Findings:
    """I8. A reader of the live (uncommitted) stream has, at the commit, each block as it is committed."""
    found = Findings("I8")
    readers: dict[str, ReaderAttempt] = {}
    judged: set[Attempt] = set()
    for entry, event in index.log.read("session-events", SessionEvent, uncommitted=True):
        attempt = attempt_of(event)
        if attempt is None or event.origin:
            continue
        reader = readers.get(attempt[0])
        if reader is None or reader.generation < attempt[1]:
            reader = readers[attempt[0]] = ReaderAttempt(attempt[1])
        if reader.generation > attempt[1]:
            continue
        if event.type in ("partial_text", "partial_thinking"):
            found.count("preview events")
            reader.delta(entry, event)
        elif event.type == "preview_retracted":
            reader.retract(event.relay)
        elif event.type == "request_end":
            if event.status == "completed" and attempt not in judged:
                judged.add(attempt)
                _check_reader(index, found, entry, attempt, reader)
            reader.decided = True
    return found


def _check_reader(index: Index, found: Findings, entry: Entry, attempt: Attempt, reader: ReaderAttempt) -> None:
    turns = [pair for pair in index.commits.get(attempt[0], ()) if pair[1].generation == attempt[1]]
    if not turns:
        return  # I7 says so
    place, turn = turns[0]
    shown = (place, entry, *index.about(attempt[0]))
    if reader.gap is not None:
        if index.cut("session-events", (turn.tenant, turn.conversation)):
            found.unknown("the beginning of some previews is gone by retention")
        else:
            found.breach("a preview has a hole", reader.gap, *shown)
        return
    found.count("blocks compared", sum(1 for text in reader.texts.values() if text))
    if not _as_committed(reader, turn):
        found.breach("the preview of a block is not its committed text", *shown)


def _as_committed(reader: ReaderAttempt, turn: Turn) -> bool:
    """Whether each previewed text is the committed block at its index, or at another where blocks moved up.

    A refusal may declare what came before it void, so beside one nothing is compared.
    """
    if any(block.kind == "refusal" for block in turn.blocks):
        return True
    for partial, kinds in (("partial_text", TEXT_KINDS), ("partial_thinking", THINKING_KINDS)):
        left = texts_of(turn, kinds)
        for (kind, index), text in sorted(reader.texts.items()):
            if kind != partial or not text:
                continue
            there = turn.blocks[index] if index < len(turn.blocks) else None
            if text not in left or (there is not None and there.kind in kinds and there.content.text != text):
                return False
            left.remove(text)
    return True
