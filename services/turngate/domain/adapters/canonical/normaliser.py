"""The profile of a platform that has its own provider client and publishes block operations itself.

The form of its events stands in `docs/canonical.md`. It is our own, so nothing in it is tolerated.
"""

from __future__ import annotations

from turngate.domain.adapters.canonical.normaliser_blocks import CanonicalNormaliser
from turngate.domain.stream.operations import NormaliserSpec, ProfileFacts

NORMALISERS: tuple[NormaliserSpec, ...] = (
    NormaliserSpec(
        "canonical",
        1,
        ProfileFacts(
            empty_arguments="malformed", end_mark=False, blocks_close_with_turn=False, complete_with_calls="wrong"
        ),
        CanonicalNormaliser,
    ),
)
