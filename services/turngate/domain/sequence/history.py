"""A conversation as its committed turns say it is: head, chain, what is rendered, what is open."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.schemas.blocks import Block, ToolEdge
from turngate.schemas.digests import EMPTY_HISTORY
from turngate.schemas.errors import InvalidRecord
from turngate.schemas.turn import Turn


@dataclass(frozen=True, slots=True)
class CommittedHistory:
    """Committed turns of one conversation, revisions 1..n in order; nothing else is ever history.

    Raises InvalidRecord where a turn is missing, out of order, or of another conversation.
    """

    tenant: str
    conversation: str
    turns: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        for expected, turn in enumerate(self.turns, start=1):
            if turn.revision != expected:
                raise InvalidRecord(f"turn {expected} expected, revision {turn.revision} found", path="revision")
            if (turn.tenant, turn.conversation) != (self.tenant, self.conversation):
                raise InvalidRecord(f"turn {expected} belongs to another conversation", path="conversation")

    @property
    def head_revision(self) -> int:
        return len(self.turns)

    @property
    def last_turn(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    @property
    def history_digest(self) -> str:
        """The chain value after the last turn, EMPTY_HISTORY before the first."""
        return self.turns[-1].history_digest if self.turns else EMPTY_HISTORY

    @property
    def withdrawn(self) -> frozenset[int]:
        """Revisions of input turns that are not rendered any more."""
        return frozenset(turn.withdraws for turn in self.turns if turn.withdraws is not None)

    @property
    def rendered_turns(self) -> tuple[Turn, ...]:
        """The turns a sequence is made of, in order: without withdrawn inputs, artifacts in place of what
        they cover.
        """
        covers = {turn.revision: turn.replaces for turn in self.turns if turn.replaces is not None}
        withdrawn = self.withdrawn
        hidden = set(withdrawn)
        for first, last in covers.values():
            hidden.update(range(first, last + 1))
        artifacts = sorted((span[1], revision) for revision, span in covers.items() if revision not in hidden)
        placed: list[Turn] = []
        for turn in self.turns:
            if turn.revision not in hidden and turn.replaces is None:
                placed.append(turn)
            elif turn.revision not in withdrawn and turn.replaces is None and (kept := _system_part(turn)):
                placed.append(kept)
            placed.extend(self.turns[revision - 1] for last, revision in artifacts if last == turn.revision)
        return tuple(placed)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block that is rendered, in order."""
        return tuple(block for turn in self.rendered_turns for block in turn.blocks)

    @property
    def tool_edges(self) -> tuple[ToolEdge, ...]:
        """One edge per rendered call, in call order; a settled one comes from its tool turn."""
        edges: list[ToolEdge] = []
        waiting: tuple[ToolEdge, ...] = ()
        for turn in self.rendered_turns:
            if turn.kind == "tool":
                edges.extend(turn.tool_edges)
                waiting = ()
            elif turn.kind == "assistant":
                edges.extend(waiting)
                waiting = turn.tool_edges
        return (*edges, *waiting)

    @property
    def open_calls(self) -> tuple[ToolEdge, ...]:
        """Calls of the last assistant turn while no tool turn has settled them."""
        for turn in reversed(self.turns):
            if turn.kind == "tool":
                return ()
            if turn.kind == "assistant":
                return turn.tool_edges
        return ()

    @property
    def last_assistant(self) -> Turn | None:
        return next((turn for turn in reversed(self.turns) if turn.kind == "assistant"), None)


def _system_part(turn: Turn) -> Turn | None:
    """What stays of a turn an artifact covers: its system text, since a summary never speaks for the
    operator.
    """
    kept = tuple(block for block in turn.blocks if block.role in ("system", "developer"))
    return turn.model_copy(update={"blocks": kept, "tool_edges": ()}) if kept else None
