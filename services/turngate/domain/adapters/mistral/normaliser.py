"""The stream profile of Mistral chat completions."""

from __future__ import annotations

from turngate.domain.adapters.mistral.normaliser_chat import MistralNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "mistral",
        1,
        ProfileFacts(
            empty_arguments="malformed",
            end_mark=False,
            blocks_close_with_turn=True,
            complete_with_calls="wrong",
            sentinels=frozenset({"[DONE]"}),
        ),
        MistralNormaliser,
    ),
)
