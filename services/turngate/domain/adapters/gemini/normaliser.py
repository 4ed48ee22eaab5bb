"""The stream profile of Gemini's streamGenerateContent, of the Developer API and of Vertex."""

from __future__ import annotations

from turngate.domain.adapters.gemini.normaliser_content import GeminiNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "gemini",
        1,
        ProfileFacts(
            # Absent arguments are an empty object on this wire; the normaliser writes it, so no text is ever empty.
            empty_arguments="malformed",
            end_mark=False,
            blocks_close_with_turn=False,
            complete_with_calls="wrong",
            sentinels=frozenset({"[DONE]"}),  # not of this API: relays that speak several of them append it
            json_bodies=True,
            stop_may_go_on=True,
        ),
        GeminiNormaliser,
    ),
)
