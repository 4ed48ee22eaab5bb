"""What every adapter is: a pure, versioned renderer of one API, named by the digest of its own source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Protocol

from turngate.schemas.errors import Refused, TurngateError
from turngate.schemas.findings import Finding
from turngate.schemas.sequence import MessageSequence
from turngate.schemas.tools import ToolDeclaration, Toolset


class AdapterError(TurngateError):
    """An adapter cannot render this sequence: the conversation is PAUSED, nothing is sent."""

    code = "adapter_error"


class UnsupportedKind(AdapterError):
    """A block kind (or an opaque part) this adapter does not know; it is never degraded to text."""

    code = "unknown_kind"

    def __init__(self, message: str, *, kind: str, block_id: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.block_id = block_id


class UnknownAdapter(Refused):
    """No adapter of that name and version in this build."""

    code = "unknown_adapter"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an API offers around a generation; facts of an endpoint may narrow or widen them."""

    query: bool = False
    resume: bool = False
    idempotent_replay: bool = False
    cancel: bool = False
    background: bool = False
    close_ends_generation: bool = False


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """One request, to the byte. headers: the semantic ones only. token_estimate: input tokens, rounded up."""

    method: str
    path: str
    body: bytes
    token_estimate: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Adapter(Protocol):
    """One API at one version. `render` and `admission` are pure and deterministic.

    Both raise UnsupportedKind for a block they do not know, AdapterError for a toolset that is not the
    sequence's.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def normaliser(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def kinds(self) -> frozenset[str]: ...

    def render(self, sequence: MessageSequence, toolset: Toolset | None) -> RenderedRequest: ...
    def admission(self, sequence: MessageSequence, toolset: Toolset | None) -> tuple[Finding, ...]: ...


_SHARED = ("base.py", "limits.py", "parts.py", "wire_ids.py")
_OWN = ("render.py", "tables.py")


@cache
def source_digest(package: str, salt: str) -> str:
    """sha256 over an adapter's source files and those it shares, names included; `salt` is the variant."""
    running = hashlib.sha256(salt.encode())
    root = "turngate.domain.adapters"
    for owner, names in ((f"{root}.{package}", _OWN), (root, _SHARED)):
        for name in names:
            data = files(owner).joinpath(name).read_bytes()
            running.update(f"{owner}/{name}:{len(data)}\n".encode())
            running.update(data)
    return running.hexdigest()


def offered_tools(sequence: MessageSequence, toolset: Toolset | None) -> tuple[ToolDeclaration, ...]:
    """The tools of the request. Raises AdapterError unless the toolset is the one the sequence names."""
    given = toolset.toolset_digest if toolset is not None else None
    if given != sequence.toolset_digest:
        raise AdapterError("the toolset given is not the one the sequence names", code="toolset_mismatch")
    return toolset.tools if toolset is not None else ()


def token_estimate(body: bytes) -> int:
    """Input tokens, estimated from the body's length: four bytes a token, rounded up."""
    return (len(body) + 3) // 4
