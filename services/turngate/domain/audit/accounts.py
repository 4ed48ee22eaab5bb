"""I6: every request, turn and tool result ends somewhere that can be seen."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.audit.index import INPUTS, Conversation, Index, Request
from turngate.domain.audit.log import Entry
from turngate.domain.audit.report import Findings
from turngate.domain.audit.tools import call_key, calls_of
from turngate.schemas.tools import ToolResult
from turngate.schemas.verdict import Verdict

WORK_REASONS = frozenset({"operation_open", "calls_open"})
"""Reasons of WAITING that end by themselves once the conversation's open work ends."""


def check_accounts(index: Index) -> Findings:
    """I6. Each accepted request and tool result is committed, answered, or visibly held."""
    found = Findings("I6")
    _check_unreadable(index, found)
    for request, entries in index.requests.items():
        found.count("turn requests")
        _check_request(index, found, request, entries[0][0])
    for operation, ready in index.ready.items():
        found.count("operations")
        state = _operation_state(index, operation, ready[0][1])
        found.count(f"operations {state}")
        if state == "open":
            found.pending(index.settled, "an operation has no outcome", ready[0][0], *index.about(operation))
    settled = _settled_results(index)
    for key, results in index.results.items():
        for entry, result in results:
            found.count("tool results")
            _check_result(index, found, key, entry, result, settled)
    _check_input_turns(index, found)
    return found


def _check_unreadable(index: Index, found: Findings) -> None:
    """What is no record must be shown as that. In a topic of our own only its dead letter says that it is not ours."""
    unreadable = [entry for entry in index.log.entries() if entry.record is None]
    seen = {entry.body for entry in unreadable if entry.place in index.dead or entry.place in index.quarantined}
    for entry in unreadable:
        found.count("unreadable records")
        if entry.body in seen:  # here, or on the partition it was moved to
            found.count("unreadable records dead-lettered")
        elif entry.topic in INPUTS:
            found.unknown("unreadable records are not (yet) among the dead letters")
        else:
            found.breach("a topic of ours holds a record that is none", entry)


def _check_request(index: Index, found: Findings, request: Request, entry: Entry) -> None:
    verdicts = index.verdicts.get(request, [])
    if not verdicts:
        seen = [place for place, _ in index.requests[request]]
        if any(place.place in index.dead or place.place in index.quarantined for place in seen):
            found.count("requests dead-lettered")
        elif index.cut("verdicts", request[:2]):
            found.unknown("verdicts no longer reach back to some requests")
        else:
            found.pending(index.settled, "a turn request has no answer", *seen)
        return
    place, last = verdicts[-1]
    found.count(f"requests {last.verdict}")
    held = last.verdict == "WAITING" and last.reason in WORK_REASONS
    if held and not _work_open(index, request[:2]):
        # Visible, but nothing is left that would ever wake it.
        found.pending(index.settled, "a request waits for work that has ended", entry, place)
    if last.verdict in ("WAITING", "PAUSED") and last.request is None:
        found.breach("a held request is not kept whole in its verdict", entry, place)
    if last.verdict == "REJECTED" and not any(finding.severity == "error" for finding in last.findings):
        found.breach("a request is rejected without a finding", entry, place)


def _work_open(index: Index, conversation: Conversation) -> bool:
    for operation, ready in index.ready.items():
        verdict = ready[0][1]
        same = (verdict.tenant, verdict.conversation) == conversation
        if same and _operation_state(index, operation, verdict) == "open":
            return True
    revisions = index.turns.get(conversation, {})
    last = revisions[max(revisions)][0][1] if revisions else None
    return last is not None and last.kind == "assistant" and bool(calls_of(last))


def _operation_state(index: Index, operation: str, verdict: Verdict) -> str:
    """committed | failed | cancelled | shadowed | open."""
    if operation in index.commits:
        return "committed"
    generations = [generation for name, generation in index.ends if name == operation]
    if generations:
        last = index.ends[(operation, max(generations))][-1][1]
        newer = [one for _, one in index.dispatches.get(operation, ()) if one.generation > max(generations)]
        if last.retry_in_ms is None and not newer:
            return "cancelled" if last.status == "aborted" else "failed"
    if _cancelled(index, operation, verdict):
        return "cancelled"
    key = (verdict.tenant, verdict.conversation, verdict.request_id)
    return "shadowed" if key in index.shadowed and operation not in index.dispatches else "open"


def _cancelled(index: Index, operation: str, verdict: Verdict) -> bool:
    """Whether a cancel met the operation: an abort followed, and it names it, or nothing had been sent."""
    conversation = (verdict.tenant, verdict.conversation)
    aborts = [event for _, event in index.session.get(conversation, ()) if event.type == "abort"]
    if any(event.operation_id == operation for event in aborts):
        return True
    met = {event.control_id for event in aborts}
    for control in index.cancels.get(conversation, ()):
        unsent = control.operation_id is None and operation not in index.dispatches
        if control.control_id in met and (control.operation_id == operation or unsent):
            return True
    return False


def _settled_results(index: Index) -> Mapping[str, str]:
    """callKey -> the result id that settled the call."""
    settled: dict[str, str] = {}
    for revisions in index.turns.values():
        last: dict[str, str] = {}
        for revision in sorted(revisions):
            turn = revisions[revision][0][1]
            if turn.kind == "assistant":
                last = {call: call_key(turn, call) for call in calls_of(turn)}
                continue
            for edge in turn.tool_edges:
                if edge.result_id is not None and edge.call_id in last:
                    settled[last[edge.call_id]] = edge.result_id
    return settled


def _check_result(
    index: Index, found: Findings, key: str, entry: Entry, result: ToolResult, settled: Mapping[str, str]
) -> None:
    if settled.get(key) == result.result_id:
        found.count("results committed")
    elif entry.place in index.quarantined or entry.place in index.dead:
        found.count("results quarantined")
    elif any(place.place in index.quarantined for place, one in index.results[key] if one == result):
        found.count("results quarantined")  # the same result delivered again
    else:
        found.pending(index.settled, "a tool result is neither committed nor in quarantine", entry)


def _check_input_turns(index: Index, found: Findings) -> None:
    """A READY request's blocks are a committed input turn."""
    causes: dict[Conversation, set[str]] = {}
    for conversation, revisions in index.turns.items():
        causes[conversation] = {
            turn.cause_id for pairs in revisions.values() for _, turn in pairs if turn.kind == "input"
        }
    for request, entries in index.requests.items():
        ready = [place for place, verdict in index.verdicts.get(request, ()) if verdict.verdict == "READY"]
        if not ready or not any(one.blocks for _, one in entries):
            continue
        names = {request[2], *(one.cause_id for _, one in entries if one.cause_id is not None)}
        if names & causes.get(request[:2], set()):
            continue
        if index.cut("turns", request[:2]):
            found.unknown("turns no longer reach back to some requests")
        else:
            found.pending(index.settled, "a READY request's input was never committed", entries[0][0], *ready)
