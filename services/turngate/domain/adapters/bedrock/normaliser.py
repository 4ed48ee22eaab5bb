"""Bedrock ConverseStream events to block operations.

An event is `{event-type: payload}`: the member of the stream's union by the name its frame gives it. A block's key is
its contentBlockIndex. A turn is terminal once `messageStop` has come; `metadata` may stand before or behind it.
"""

from __future__ import annotations

from turngate.domain.adapters.bedrock.normaliser_converse import ConverseNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "bedrock",
        1,
        ProfileFacts(
            empty_arguments="object",
            end_mark=False,
            blocks_close_with_turn=False,
            complete_with_calls="wrong",
            media_type="application/vnd.amazon.eventstream",
        ),
        ConverseNormaliser,
    ),
)
