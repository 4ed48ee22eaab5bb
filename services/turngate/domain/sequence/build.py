"""MessageSequence.v1 from committed turns alone."""

from __future__ import annotations

from typing import Protocol

from turngate.domain.sequence.history import CommittedHistory
from turngate.schemas.blocks import Block
from turngate.schemas.digests import EMPTY_HISTORY
from turngate.schemas.requests import TurnOptions
from turngate.schemas.sequence import MessageSequence, sequence_digest
from turngate.schemas.turn import Turn

PRIVATE_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Kinds bound to the provider and model that wrote them; they are replayed there or dropped whole, never
edited.
"""


class AdapterIdentity(Protocol):
    """What a sequence needs to know of an adapter."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def digest(self) -> str: ...


def build_sequence(
    history: CommittedHistory, *, options: TurnOptions, adapter: AdapterIdentity, policy_digest: str
) -> MessageSequence:
    """The sequence for the next assistant turn on this head, its digest set.

    Private reasoning of another provider or another model is left out whole. The same turns, options, adapter
    and policy always give the same record.
    """
    blocks = tuple(
        block
        for turn in history.rendered_turns
        for block in turn.blocks
        if block.kind not in PRIVATE_KINDS or _same_writer(turn, block, options, adapter)
    )
    draft = MessageSequence(
        tenant=history.tenant,
        conversation=history.conversation,
        conversation_revision=history.head_revision,
        blocks=blocks,
        tool_edges=history.tool_edges,
        adapter=f"{adapter.name}@{adapter.version}",
        adapter_digest=adapter.digest,
        toolset_digest=options.toolset_digest,
        model_revision=options.model,
        max_output_tokens=options.max_output_tokens,
        tool_choice=options.tool_choice,
        policy_digest=policy_digest,
        history_digest=history.history_digest,
        sequence_digest=EMPTY_HISTORY,
    )
    return draft.model_copy(update={"sequence_digest": sequence_digest(draft)})


def _same_writer(turn: Turn, block: Block, options: TurnOptions, adapter: AdapterIdentity) -> bool:
    """Whether the block was written by the API and model that would read it now; an unknown writer counts as
    the same.
    """
    if block.role != "assistant":
        return True
    if turn.receipt is not None and turn.receipt.adapter.partition("@")[0] != adapter.name:
        return False
    return turn.options is None or turn.options.model == options.model
