"""Gemini chunks to block operations.

A chunk holds parts of candidates; parts have no index, so blocks are numbered as they arrive. Text goes on with the
text before it, unless either is signed: a signature belongs to the very part it came on. A functionCall is whole in
its part, or streamed at JSON paths until a part without `willContinue`.

The finish reason is not always last: older models say STOP in every chunk, and with code execution text follows it.
So a STOP without a call is provisional; any other, and STOP beside a call, ends the candidate.
"""

from __future__ import annotations

from typing import cast

from turngate.domain.adapters.gemini import normaliser_tables as tables
from turngate.domain.adapters.gemini.normaliser_candidate import Candidate, as_map, unknown_field
from turngate.domain.stream import operations as op


class GeminiNormaliser:
    """The profile `gemini`."""

    def __init__(self) -> None:
        self._candidates: dict[int, Candidate] = {}
        self._handle: str | None = None

    def event(self, value: object, raw: str, out: list[op.Operation]) -> None:
        chunk = as_map(value)
        if chunk is None:
            out.append(op.Note("unknown_event", "error", "the event is not an object"))
            return
        handle = chunk.get("responseId")
        if handle != self._handle and handle:
            self._bind(handle, out)
        usage = as_map(chunk.get("usageMetadata"))
        if usage is not None:
            out.append(op.Usage(usage, raw, ("usageMetadata",)))
        candidates = chunk.get("candidates")
        if isinstance(candidates, list):
            for place, candidate in enumerate(cast("list[object]", candidates)):
                self._candidate(candidate, place, raw, out)
        elif candidates is not None:
            out.append(op.Note("unknown_event", "error", "candidates are not a list"))
        if "promptFeedback" in chunk:
            self._feedback(as_map(chunk["promptFeedback"]) or {}, out)
        if not chunk.keys() <= tables.CHUNK_KEYS:
            self._beside(chunk, out)

    def _bind(self, handle: object, out: list[op.Operation]) -> None:
        if self._handle is None and isinstance(handle, str):
            self._handle = handle
            out.append(op.Handle(handle))
        else:
            out.append(op.Note("identity_collision", "error", "the response id changes inside the stream"))

    def _beside(self, chunk: dict[str, object], out: list[op.Operation]) -> None:
        error = chunk.get("error")
        if error is not None:
            detail = as_map(error) or {}
            status, code = detail.get("status"), detail.get("code")
            word = status if isinstance(status, str) else "error"
            number = code if isinstance(code, int) else None
            found = tables.ERROR_CLASSES.get(word) or tables.ERROR_CLASSES.get(number)
            out.append(op.Failure(word, found or "retryable"))
        for key in sorted(chunk.keys() - tables.CHUNK_KEYS - {"error"}):
            out.append(unknown_field(key, "a field of the response that this normaliser does not know"))

    def _feedback(self, feedback: dict[str, object], out: list[op.Operation]) -> None:
        """A blocked prompt has no candidates; what the API says of it is the refusal."""
        reason = feedback.get("blockReason")
        if reason is None:
            return
        key = reason if isinstance(reason, (str, int)) and not isinstance(reason, bool) else None
        stop = tables.BLOCK_REASONS.get(key, "unknown")
        message = feedback.get("blockReasonMessage")
        self._state(0).stop_with(str(key), stop, message if isinstance(message, str) else "", out)

    def _state(self, number: int) -> Candidate:
        state = self._candidates.get(number)
        if state is None:
            state = self._candidates[number] = Candidate(number)
        return state

    def _candidate(self, value: object, place: int, raw: str, out: list[op.Operation]) -> None:
        candidate = as_map(value)
        if candidate is None:
            out.append(op.Note("unknown_event", "error", "a candidate is not an object"))
            return
        number = candidate.get("index")
        if number is None and place == 0:
            number = 0  # a default that this wire leaves out
        if type(number) is not int or number < 0:
            out.append(op.Note("missing_slot", "error", "a candidate without an index"))
            return
        state = self._state(number)
        content = candidate.get("content")
        if content is not None:
            state.content(as_map(content), raw, place, self._handle or "", out)
        if not candidate.keys() <= tables.CANDIDATE_KEYS:
            state.beside(candidate, raw, place, out)
        reason = candidate.get("finishReason")
        if isinstance(reason, (list, dict)) or (reason not in tables.UNSPECIFIED or reason is False):
            message = candidate.get("finishMessage")
            state.finish(reason, message if isinstance(message, str) else "", out)
