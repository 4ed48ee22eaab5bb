"""From the gate's outcome and what Redis says to the script that decides: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turngate.domain.dispatch.retry import RetryPolicy, retry_delay_ms
from turngate.domain.stream import Outcome
from turngate.reassembler.store import AttemptView
from turngate.schemas.stream import EndFrame, ResolveFrame
from turngate.schemas.turn import GenerationNote

RequestEnd = Literal["completed", "failed", "timeout", "malformed", "aborted"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the script is asked for.

    state: COMMITTED, TERMINATED (a retry follows), FAILED, UNKNOWN, or ABORTED (cancelled, evidence still to come).
    reason: of the retraction and of request_end, a stable word.
    """

    state: Literal["COMMITTED", "TERMINATED", "FAILED", "UNKNOWN", "ABORTED"]
    status: RequestEnd
    reason: str
    evidence: str
    retry_in_ms: int | None = None


def evidence_of(frame: EndFrame | ResolveFrame, outcome: Outcome, view: AttemptView) -> str:
    """The strongest evidence of termination at hand, '' where there is none (DESIGN §6)."""
    if frame.evidence is not None:
        return frame.evidence
    if outcome.terminal_seen or any(finding.code == "provider_error" for finding in outcome.findings):
        return "terminal"
    return view.evidence


def decide(
    frame: EndFrame | ResolveFrame, outcome: Outcome, view: AttemptView, policy: RetryPolicy, operation: str
) -> Decision:
    """The decision for one attempt, given its relay's outcome and the state of its operation."""
    evidence = evidence_of(frame, outcome, view)
    if view.cancelled:
        by_user = isinstance(frame, EndFrame) and frame.control_id is not None
        if evidence:
            return Decision("FAILED", "aborted", "cancelled", evidence)
        return Decision("ABORTED" if by_user else "UNKNOWN", "aborted", "cancelled", "")
    if outcome.verdict == "commit":
        return Decision("COMMITTED", "completed", "committed", "terminal")
    if outcome.verdict == "blocked":
        return _ended(frame, outcome, policy, operation, evidence or "terminal", "malformed")
    if outcome.verdict == "failed":
        status: RequestEnd = outcome.request_end or "failed"
        return _ended(frame, outcome, policy, operation, evidence, status) if evidence else _unknown()
    if evidence:
        status = "timeout" if isinstance(frame, EndFrame) and frame.cause == "timeout" else "failed"
        return _ended(frame, outcome, policy, operation, evidence, status, lost=True)
    return _unknown()


def _unknown() -> Decision:
    return Decision("UNKNOWN", "failed", "unknown", "")


def _ended(
    frame: EndFrame | ResolveFrame,
    outcome: Outcome,
    policy: RetryPolicy,
    operation: str,
    evidence: str,
    status: RequestEnd,
    *,
    lost: bool = False,
) -> Decision:
    http = frame if isinstance(frame, EndFrame) else None
    delay = retry_delay_ms(
        policy,
        "ladder" if lost else outcome.retry,
        operation=operation,
        generation=frame.generation,
        error_class=http.error_class if http is not None else None,
        retry_after_ms=http.retry_after_ms if http is not None else None,
    )
    reason = next((finding.code for finding in outcome.findings if finding.severity == "error"), status)
    if delay is None:
        return Decision("FAILED", status, str(reason), evidence)
    return Decision("TERMINATED", status, str(reason), evidence, delay)


def generation_notes(notes: str, generation: int) -> tuple[GenerationNote, ...]:
    """The history of attempts from its stored form (`1:failed;2:timeout;`), with the winner at its end."""
    rows = [row.split(":", 1) for row in notes.split(";") if row]
    plain = [{"generation": int(number), "status": status} for number, status in rows]
    plain.append({"generation": generation, "status": "completed"})
    return tuple(GenerationNote.model_validate(row) for row in plain)
