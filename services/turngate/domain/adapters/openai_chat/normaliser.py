"""The stream profiles of the Chat Completions family."""

from __future__ import annotations

from turngate.domain.adapters.openai_chat.normaliser_chat import ChatNormaliser
from turngate.domain.adapters.openai_chat.normaliser_compat import CompatNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

_DONE = frozenset({"[DONE]"})

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "openai",
        1,
        ProfileFacts(
            empty_arguments="malformed",
            end_mark=False,
            blocks_close_with_turn=True,
            complete_with_calls="forced",
            sentinels=_DONE,
        ),
        ChatNormaliser,
    ),
    NormaliserSpec(
        "openai-compat",
        1,
        ProfileFacts(
            empty_arguments="tolerated",
            end_mark=False,
            blocks_close_with_turn=True,
            complete_with_calls="tolerated",
            sentinels=_DONE,
            same_key_again="tolerated",
        ),
        CompatNormaliser,
    ),
)
