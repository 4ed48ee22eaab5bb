"""A request's new blocks, checked as a candidate against the committed graph; nothing is committed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from turngate.domain.sequence.history import CommittedHistory
from turngate.domain.sequence.turns import can_withdraw
from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.requests import NewBlock, TurnRequest

Verdict = Literal["READY", "WAITING", "REJECTED", "PAUSED"]

INPUT_ROLES = frozenset({"user", "system", "developer"})
INPUT_KINDS = frozenset({"text", "image", "document", "context", "notice"})
_TEXT_KINDS = frozenset({"text", "context", "notice"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """READY may be committed, WAITING is held with its reason, REJECTED has at least one error finding."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    reason: str | None = None


Rule = Callable[[CommittedHistory, TurnRequest], Iterator[Finding]]


def candidate_findings(history: CommittedHistory, request: TurnRequest) -> Candidate:
    """The verdict on a request against the committed head.

    What can never become right is REJECTED at once, whatever is still open; only then do open calls make it
    WAITING (`calls_open`). Operations in flight and pauses are the caller's to look up.
    """
    findings = tuple(finding for rule in RULES for finding in rule(history, request))
    if any(finding.severity == "error" for finding in findings):
        return Candidate("REJECTED", findings)
    if history.open_calls:
        return Candidate("WAITING", findings, "calls_open")
    late = tuple(_something_to_answer(history, request))
    return Candidate("REJECTED" if late else "READY", (*findings, *late))


def _identity(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    if (history.tenant, history.conversation) != (request.tenant, request.conversation):
        yield _finding(HistoryCode.REVISION_CONFLICT, "the request names another conversation", "conversation")


def _revision(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    if request.base_revision is not None and request.base_revision != history.head_revision:
        message = f"the request was made for revision {request.base_revision}, the head is {history.head_revision}"
        yield _finding(HistoryCode.REVISION_CONFLICT, message, "baseRevision")


def _withdraws(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    if request.withdraws is not None and not can_withdraw(history, request.withdraws):
        message = "only an input turn that nothing has answered can be withdrawn"
        yield _finding(HistoryCode.REVISION_CONFLICT, message, "withdraws")


def _roles(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    """A request speaks as user, system or developer; nothing else is a caller's to claim."""
    for index, block in enumerate(request.blocks):
        path = f"blocks/{index}/role"
        if block.role not in INPUT_ROLES:
            yield _finding(HistoryCode.ROLE_SPOOF, f"a request cannot speak as {block.role}", path)
        elif block.kind not in INPUT_KINDS:
            yield _finding(
                HistoryCode.UNKNOWN_KIND, f"a request cannot bring kind {block.kind}", f"blocks/{index}/kind"
            )
        elif block.kind != "text" and block.role != "user":
            yield _finding(HistoryCode.ROLE_SPOOF, f"kind {block.kind} has the user role", path)


def _system_first(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    withdrawn = history.withdrawn | {request.withdraws}
    started = any(turn.blocks and turn.revision not in withdrawn for turn in history.turns)
    for index, block in enumerate(request.blocks):
        if block.role not in ("system", "developer"):
            started = True
        elif started:
            message = "system text stands only at the very start of a conversation"
            yield _finding(HistoryCode.SYSTEM_NOT_FIRST, message, f"blocks/{index}")


def _content(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    for index, block in enumerate(request.blocks):
        path = f"blocks/{index}/content"
        stray = _stray_fields(block)
        if stray:
            yield _finding(HistoryCode.UNKNOWN_KIND, f"kind {block.kind} has no {stray}", f"{path}/{stray}")
        elif block.kind in _TEXT_KINDS and not block.content.text:
            yield _finding(HistoryCode.EMPTY_CONTENT, "the block has no text", path)
        elif block.kind not in _TEXT_KINDS and not block.content.data:
            yield _finding(HistoryCode.EMPTY_CONTENT, "the block has no data", path)
    if request.blocks and all(_blank(block) for block in request.blocks):
        yield _finding(HistoryCode.EMPTY_CONTENT, "nothing but white space", "blocks")


def _something_to_answer(history: CommittedHistory, request: TurnRequest) -> Iterator[Finding]:
    """After the commit the sequence must end in something a model can answer."""
    if any(block.role == "user" for block in request.blocks):
        return
    withdrawn = history.withdrawn | {request.withdraws}
    left = [turn for turn in history.rendered_turns if turn.revision not in withdrawn]
    last = next(
        (turn for turn in reversed(left) if any(b.role not in ("system", "developer") for b in turn.blocks)),
        None,
    )
    if last is None:
        yield _finding(HistoryCode.EMPTY_CONTENT, "the conversation holds nothing to answer", "blocks")
    elif last.kind == "assistant" and not last.continues:
        yield _finding(HistoryCode.ROLE_ORDER, "the last turn is the assistant's and it is finished", "blocks")


def _stray_fields(block: NewBlock) -> str | None:
    """The first content field that does not belong to an input block's kind."""
    content = block.content
    given = {
        "signature": content.signature,
        "tool": content.tool,
        "argumentsRaw": content.arguments_raw,
        "status": content.status,
        "data": content.data if block.kind in _TEXT_KINDS else None,
    }
    return next((name for name, value in given.items() if value is not None), None)


def _blank(block: NewBlock) -> bool:
    return block.kind in _TEXT_KINDS and not (block.content.text or "").strip()


def _finding(code: HistoryCode, message: str, path: str) -> Finding:
    return Finding(code=code, message=message, path=path, source="candidate")


RULES: tuple[Rule, ...] = (_identity, _revision, _withdraws, _roles, _system_first, _content)
