"""Which normaliser reads which profile: found in the adapter folders, so a new provider is one more folder.

An adapter folder that reads streams has a module `normaliser` with `NORMALISERS: tuple[NormaliserSpec,
...]`. Versions live side by side; a manifest pins one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from types import MappingProxyType

import turngate.domain.adapters as adapters
from turngate.domain.stream.findings import UnknownNormaliser
from turngate.domain.stream.operations import NormaliserSpec


@lru_cache(maxsize=1)
def all_normalisers() -> Mapping[tuple[str, int], NormaliserSpec]:
    """Every normaliser of this build by (profile, version). Raises ValueError where two claim the same
    name."""
    found: dict[tuple[str, int], NormaliserSpec] = {}
    for folder in sorted(m.name for m in pkgutil.iter_modules(adapters.__path__) if m.ispkg):
        name = f"{adapters.__name__}.{folder}.normaliser"
        if find_spec(name) is None:
            continue
        specs: tuple[NormaliserSpec, ...] = importlib.import_module(name).NORMALISERS
        for spec in specs:
            key = (spec.profile, spec.version)
            if key in found:
                raise ValueError(f"two normalisers are named {spec.name}")
            found[key] = spec
    return MappingProxyType(found)


def profiles() -> tuple[str, ...]:
    """The stream profiles this build reads, sorted."""
    return tuple(sorted({profile for profile, _ in all_normalisers()}))


def find_normaliser(profile: str, version: int | None = None) -> NormaliserSpec:
    """The pinned version, or the newest where none is pinned. Raises UnknownNormaliser."""
    known = all_normalisers()
    if version is None:
        version = max((v for p, v in known if p == profile), default=0)
    spec = known.get((profile, version))
    if spec is None:
        raise UnknownNormaliser(f"no normaliser of this profile and version; profiles here: {', '.join(profiles())}")
    return spec
