"""OpenAI Responses events to block operations.

An item's key is its `output_index`; item ids rotate at some gateways and are only compared. A turn is terminal once
`response.completed`, `response.incomplete` or `response.failed` has come; there is no end mark behind it.
"""

from __future__ import annotations

from turngate.domain.adapters.openai_responses.normaliser_responses import ResponsesNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "openai-responses",
        1,
        ProfileFacts(
            empty_arguments="malformed",
            end_mark=False,
            blocks_close_with_turn=False,
            complete_with_calls="wrong",
            sentinels=frozenset({"[DONE]"}),
            json_bodies=True,
        ),
        ResponsesNormaliser,
    ),
)
