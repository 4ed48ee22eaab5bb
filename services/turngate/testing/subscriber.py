"""A reader of the live session stream that knows the preview rule (DESIGN §9) and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turngate.schemas.session import SessionEvent
from turngate.schemas.turn import Turn

KINDS = {"partial_text": ("text", "refusal"), "partial_thinking": ("thinking", "reasoning")}

Shown = dict[tuple[str, int], str]
"""(type, blockIndex) -> text."""


@dataclass(slots=True)
class _Attempt:
    generation: int
    shown: Shown = field(default_factory=dict[tuple[str, int], str])
    previewed: bool = False
    relay: int = 0
    outcomes: set[str] = field(default_factory=set[str])


class Subscriber:
    """`read` takes the events of a conversation in the order of its partition; `wrong` says what broke I7 or I8.

    turns: the committed turns by (conversation, revision), which the previews are compared with at their commit.
    """

    def __init__(self, turns: Mapping[tuple[str, int], Turn]) -> None:
        self._turns = turns
        self._attempts: dict[str, _Attempt] = {}
        self.wrong: list[tuple[str, str]] = []
        self.compared = 0

    def read(self, event: SessionEvent) -> None:
        """The next event."""
        if event.operation_id is None or event.generation is None:
            return
        attempt = self._attempts.get(event.operation_id)
        if attempt is None or attempt.generation < event.generation:
            if attempt is not None:
                self._ended(event.conversation, attempt)
            attempt = self._attempts[event.operation_id] = _Attempt(event.generation)
        if event.generation < attempt.generation:
            return
        if event.type in KINDS or event.type == "partial_tool_call":
            self._partial(event, attempt)
        elif event.type == "preview_retracted" and event.relay is not None:
            if not attempt.outcomes:
                attempt.shown, attempt.relay = {}, max(attempt.relay, event.relay)
        elif event.type == "preview_retracted":
            attempt.outcomes.add("retracted")
        elif event.type == "turn_committed":
            if not attempt.outcomes:
                self._compare(event, attempt)
            attempt.outcomes.add("committed")

    def over(self) -> None:
        """Nothing follows any more."""
        for operation, attempt in self._attempts.items():
            self._ended(operation, attempt)

    def _partial(self, event: SessionEvent, attempt: _Attempt) -> None:
        if attempt.outcomes or (event.relay or 0) <= attempt.relay:
            return
        attempt.previewed = True
        if event.step != "delta" or event.type not in KINDS:
            return
        place = (event.type, event.block_index or 0)
        have = attempt.shown.get(place, "")
        offset = event.text_offset or 0
        if offset > len(have):
            self.wrong.append((event.conversation, f"a hole before {offset} in block {place[1]}"))
        attempt.shown[place] = have + (event.text or "")[max(0, len(have) - offset) :]

    def _compare(self, event: SessionEvent, attempt: _Attempt) -> None:
        """I8: every block of text is there, at its place, byte for byte, and nothing else."""
        turn = self._turns.get((event.conversation, event.revision or 0))
        if turn is None:
            self.wrong.append((event.conversation, "committed on the stream without a turn"))
            return
        committed: Shown = {
            (partial, place): block.content.text
            for place, block in enumerate(turn.blocks)
            for partial, kinds in KINDS.items()
            if block.kind in kinds and block.content.text
        }
        shown = {place: text for place, text in attempt.shown.items() if text}
        self.compared += len(committed)
        if shown != committed:
            self.wrong.append((event.conversation, f"shown {shown}, committed {committed}"))

    def _ended(self, name: str, attempt: _Attempt) -> None:
        """I7: what was shown is committed or retracted, one of the two."""
        if (attempt.previewed and not attempt.outcomes) or len(attempt.outcomes) > 1:
            self.wrong.append((name, f"generation {attempt.generation} ended {sorted(attempt.outcomes)}"))
