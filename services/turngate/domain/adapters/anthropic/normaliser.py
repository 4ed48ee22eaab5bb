"""Anthropic Messages events to block operations, for every API version of it.

The event names and shapes did not change between 2023-06-01 and 2026-10-21, so one normaliser reads all. A
block's index is its place in the final content. A turn is terminal once a stop reason and `message_stop`
have come.
"""

from __future__ import annotations

from turngate.domain.adapters.anthropic.normaliser_messages import MessagesNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "anthropic",
        1,
        ProfileFacts(
            empty_arguments="object",
            end_mark=True,
            blocks_close_with_turn=False,
            complete_with_calls="wrong",
            sentinels=frozenset({"[DONE]"}),  # not of this API: relays that speak several of them append it
        ),
        MessagesNormaliser,
    ),
)
