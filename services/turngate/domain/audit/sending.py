"""I1, I4 and I9: what was sent, how often, and that it is what the manifest names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from turngate.domain.audit.index import Attempt, Conversation, Index
from turngate.domain.audit.log import Entry, ReceiveLine
from turngate.domain.audit.report import Findings
from turngate.schemas.digests import EMPTY_HISTORY, history_digest, idempotency_key, operation_id
from turngate.schemas.manifest import Dispatch, DispatchManifest, manifest_digest
from turngate.schemas.sequence import SequenceCommand, sequence_digest
from turngate.schemas.stream import EndFrame, ResolveFrame

CLOCK_SKEW_MS = 2_000
"""How far the clocks of two writers may be apart before an order in time is called wrong."""


def attributed(index: Index, line: ReceiveLine) -> Attempt | None:
    """The attempt a received request belongs to: as it says, else by idempotency key, else by digest."""
    if line.operation is not None and line.generation is not None:
        return (line.operation, line.generation)
    return index.by_key.get(line.idempotency_key or "") or index.by_digest.get(line.request_digest)


def check_nothing_invalid_sent(index: Index) -> Findings:
    """I1. Every request received, and every dispatch, comes from a READY verdict through a valid sequence."""
    found = Findings("I1", senders_word=index.lines is None)
    for line in index.lines or ():
        found.count("requests received")
        attempt = attributed(index, line)
        if attempt is None or not index.dispatched(attempt):
            operation = None if attempt is None else attempt[0]
            if index.log.cut("dispatches", None):
                found.unknown("dispatches of some received requests are gone by retention")
            else:
                found.breach("a provider received a request that no dispatch names", line, *index.about(operation))
    for operation, dispatches in index.dispatches.items():
        found.count("operations dispatched")
        _check_chain(index, found, operation, dispatches)
    _check_refused(index, found)
    return found


def _check_chain(index: Index, found: Findings, operation: str, dispatches: list[tuple[Entry, Dispatch]]) -> None:
    """dispatch -> manifest -> sequence -> READY verdict, by digest."""
    entry, dispatch = dispatches[0]
    conversation = (dispatch.tenant, dispatch.conversation)
    shown = index.about(operation)
    ready = index.ready.get(operation, [])
    if not ready:
        _missing(index, found, "verdicts", conversation, "a dispatch without a READY verdict", entry, *shown)
        return
    verdict = ready[0][1]
    named = {verdict.sequence_digest for _, verdict in ready if verdict.sequence_digest is not None}
    commands = index.sequences.get(operation, [])
    if not commands:
        _missing(index, found, "sequences", conversation, "a dispatch without its sequence", entry, *shown)
    for place, command in commands:
        named.add(command.spec.sequence_digest)
        why = _wrong_sequence(index, command)
        if why is not None:
            found.breach(why, place, *shown)
    manifests = index.manifests.get(operation, [])
    if not manifests:
        _missing(index, found, "manifests", conversation, "a dispatch without its manifest", entry, *shown)
    named |= {manifest.sequence_digest for _, manifest in manifests}
    if len(named) > 1:
        found.breach("verdict, sequence and manifest name different sequence digests", entry, *shown)
    if verdict.base_revision != dispatch.base_revision:
        found.breach("the dispatch is on another revision than its verdict", entry, *shown)
    for place, one in dispatches:
        if manifests and one.manifest_digest not in {manifest.manifest_digest for _, manifest in manifests}:
            found.breach("a dispatch names a manifest that does not exist", place, *shown)


def _wrong_sequence(index: Index, command: SequenceCommand) -> str | None:
    """What is wrong with a sequence in itself or against the committed turns."""
    sequence = command.sequence
    if sequence.sequence_digest != sequence_digest(sequence):
        return "a sequence digest does not recompute"
    if sequence.sequence_digest != command.spec.sequence_digest:
        return "a command carries another sequence than its operation names"
    results = [block.call_id for block in sequence.blocks if block.kind == "tool_result"]
    calls = [block.call_id for block in sequence.blocks if block.kind == "tool_call"]
    if sorted(map(str, results)) != sorted(map(str, calls)):
        return "a sequence with a call that has not exactly one result was sent"
    revisions = index.turns.get((sequence.tenant, sequence.conversation), {})
    head = revisions.get(sequence.conversation_revision)
    if head is not None and sequence.history_digest not in {turn.history_digest for _, turn in head}:
        return "a sequence's history digest is not that of the turn it is built on"
    turns = (turn for pairs in revisions.values() for _, turn in pairs)
    if any(turn.withdraws is not None or turn.replaces is not None for turn in turns):
        return None  # then a sequence holds less than the whole chain
    if sequence.history_digest != history_digest(EMPTY_HISTORY, (block.digest for block in sequence.blocks)):
        return "a sequence's history digest is not that of its blocks"
    return None


def _check_refused(index: Index, found: Findings) -> None:
    """An answer other than READY leaves nothing behind that could send."""
    for (tenant, conversation, request), verdicts in index.verdicts.items():
        for entry, verdict in verdicts:
            if verdict.verdict == "READY":
                continue
            found.count(f"verdicts {verdict.verdict}")
            operation = operation_id(tenant, conversation, verdict.base_revision, request)
            sent = [*index.sequences.get(operation, ()), *index.dispatches.get(operation, ())]
            if sent and operation not in index.ready:
                found.breach(f"a request answered {verdict.verdict} was sent", entry, *index.about(operation))


def _missing(index: Index, found: Findings, topic: str, conversation: Conversation, why: str, *shown: Entry) -> None:
    if index.cut(topic, conversation):
        found.unknown(f"{topic} no longer reaches back to the beginning")
    else:
        found.breach(why, *shown)


def check_one_attempt(index: Index) -> Findings:
    """I4. Bytes once for each generation; an attempt begins only when the one before can produce nothing."""
    found = Findings("I4", senders_word=index.lines is None)
    _check_lines(index, found)
    by_conversation: dict[Conversation, list[tuple[Entry, Dispatch]]] = {}
    for operation, dispatches in index.dispatches.items():
        relays: dict[tuple[int, int], tuple[Entry, Dispatch]] = {}
        commits = [(place, turn.generation or 0) for place, turn in index.commits.get(operation, ())]
        for entry, dispatch in dispatches:
            found.count("dispatches")
            first = relays.setdefault((dispatch.generation, dispatch.relay), (entry, dispatch))
            if first[1] != dispatch:
                found.breach("two dispatches of one relay differ", first[0], entry, *index.about(operation))
            elif first[0] is not entry:
                found.count("identical repeats")
            if any(dispatch.generation > generation for _, generation in commits):
                found.breach("a generation beyond the committed one was dispatched", entry, commits[0][0])
            if dispatch.idempotency_key != idempotency_key(operation, dispatch.generation):
                found.breach("an idempotency key is not that of its generation", entry)
            by_conversation.setdefault((dispatch.tenant, dispatch.conversation), []).append((entry, dispatch))
    for conversation, dispatches in by_conversation.items():
        _check_succession(index, found, conversation, dispatches)
    return found


def _check_lines(index: Index, found: Findings) -> None:
    sent: dict[Attempt, list[ReceiveLine]] = {}
    last: dict[str, ReceiveLine] = {}
    for line in index.lines or ():
        attempt = attributed(index, line)
        if line.method != "POST" or attempt is None:
            continue
        found.count("requests received")
        sent.setdefault(attempt, []).append(line)
        before = last.get(attempt[0])
        if before is not None and (attributed(index, before) or attempt)[1] > attempt[1]:
            found.breach(
                "bytes of an older generation arrived after a newer one's",
                before,
                line,
                *index.about(attempt[0]),
            )
        last[attempt[0]] = line
    for attempt, lines in sent.items():
        replays = {dispatch.relay for _, dispatch in index.dispatched(attempt) if dispatch.mode == "replay"}
        same = len({(line.idempotency_key, line.body_sha256) for line in lines}) == 1
        if len(lines) > 1 + (len(replays) if same else 0):
            found.breach(f"the bytes of one generation arrived {len(lines)} times", *lines, *index.about(attempt[0]))


def _check_succession(
    index: Index, found: Findings, conversation: Conversation, dispatches: list[tuple[Entry, Dispatch]]
) -> None:
    """In the order of the dispatches topic each attempt follows one that had ended."""
    dispatches = sorted(dispatches, key=lambda pair: (pair[0].partition, pair[0].offset))
    for (before, old), (entry, new) in pairwise(dispatches):
        if (old.operation_id, old.generation) == (new.operation_id, new.generation):
            continue
        found.count("successions")
        attempt = (old.operation_id, old.generation)
        shown = (*index.about(old.operation_id), *index.about(new.operation_id))
        if old.operation_id == new.operation_id and new.generation <= old.generation:
            found.breach("generations do not grow", before, entry, *shown)
        ended = list(_end_times(index, attempt))
        if not ended:
            if index.cut("stream-events", conversation) or index.cut("session-events", conversation):
                found.unknown("how some attempts ended is gone by retention")
            else:
                found.breach("an attempt began while the one before had no end", before, entry, *shown)
        elif min(ended) > entry.time_ms + CLOCK_SKEW_MS:
            found.breach("an attempt began before the one before had ended", before, entry, *shown)


def _end_times(index: Index, attempt: Attempt) -> Iterator[int]:
    """When records say that an attempt can produce nothing more (record time, milliseconds)."""
    for entry, frame in index.frames.get(attempt, ()):
        # A cancel (it carries a controlId) ends the attempt for the conversation, not at the provider.
        owners = isinstance(frame, EndFrame) and (frame.evidence is not None or frame.control_id is None)
        if owners or isinstance(frame, ResolveFrame):
            yield entry.time_ms
    for entry, event in index.ends.get(attempt, ()):
        if event.status != "aborted":
            yield entry.time_ms
    for entry, turn in index.commits.get(attempt[0], ()):
        if turn.generation == attempt[1]:
            yield entry.time_ms


def check_bytes(index: Index) -> Findings:
    """I9. Received = dispatched = in the manifest, and every generation of an operation sends the same."""
    found = Findings("I9", senders_word=index.lines is None)
    for operation, dispatches in index.dispatches.items():
        manifests = index.manifests.get(operation, [])
        for entry, manifest in manifests:
            found.count("manifests")
            if manifest_digest(manifest) != manifest.manifest_digest:
                found.breach("a manifest digest does not recompute", entry, *index.about(operation))
        wanted = {manifest.request_digest for _, manifest in manifests}
        if len(wanted) > 1:
            found.breach("two manifests of one operation name different bytes", *index.about(operation))
        for entry, dispatch in dispatches:
            found.count("dispatches")
            if dispatch.mode in ("send", "replay") and wanted and dispatch.request_digest not in wanted:
                found.breach("a dispatch names other bytes than its manifest", entry, *index.about(operation))
    _check_received(index, found)
    return found


def _check_received(index: Index, found: Findings) -> None:
    bodies: dict[str, ReceiveLine] = {}
    for line in index.lines or ():
        attempt = attributed(index, line)
        if line.method != "POST" or attempt is None:
            continue
        found.count("requests received")
        shown = index.about(attempt[0])
        sends = [dispatch for _, dispatch in index.dispatched(attempt) if dispatch.mode in ("send", "replay")]
        if sends and line.request_digest not in {dispatch.request_digest for dispatch in sends}:
            found.breach("the bytes received are not those of the dispatch", line, *shown)
        if line.idempotency_key and sends and line.idempotency_key not in {one.idempotency_key for one in sends}:
            found.breach("the idempotency key received is not that of the dispatch", line, *shown)
        manifests = _manifests(index.manifests.get(attempt[0], ()))
        if manifests and (line.request_digest, line.length) not in manifests:
            found.breach("the bytes received are not those of the manifest", line, *shown)
        first = bodies.setdefault(attempt[0], line)
        if first.body_sha256 != line.body_sha256:
            found.breach("two generations of one operation sent different bytes", first, line, *shown)


def _manifests(pairs: Iterable[tuple[Entry, DispatchManifest]]) -> set[tuple[str, int]]:
    return {(manifest.request_digest, manifest.request_bytes) for _, manifest in pairs}
