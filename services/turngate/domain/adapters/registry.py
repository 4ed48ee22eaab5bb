"""Adapters by name and version, and the manifest that fixes what one of them rendered."""

from __future__ import annotations

from turngate.domain.adapters.anthropic.render import AnthropicMessages
from turngate.domain.adapters.base import (
    Adapter,
    AdapterError,
    Capabilities,
    RenderedRequest,
    UnknownAdapter,
    UnsupportedKind,
)
from turngate.domain.adapters.openai_chat.render import OpenAIChat
from turngate.schemas.digests import EMPTY_HISTORY, request_digest
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.sequence import MessageSequence

__all__ = [
    "ADAPTERS",
    "APIS",
    "Adapter",
    "AdapterError",
    "Capabilities",
    "RenderedRequest",
    "UnknownAdapter",
    "UnsupportedKind",
    "adapter",
    "adapter_for_api",
    "build_manifest",
    "manifest_matches",
]

ADAPTERS: tuple[Adapter, ...] = (
    OpenAIChat(
        name="openai-chat",
        version=1,
        profile="openai",
        normaliser="openai@1",
        tokens_field="max_completion_tokens",
        capabilities=Capabilities(close_ends_generation=True),
    ),
    OpenAIChat(
        name="openai-compat",
        version=1,
        profile="openai-compat",
        normaliser="openai-compat@1",
        tokens_field="max_tokens",
        capabilities=Capabilities(),
    ),
    AnthropicMessages(
        name="anthropic",
        version=1,
        profile="anthropic",
        normaliser="anthropic@1",
        capabilities=Capabilities(),
    ),
)
"""Every version this build can render; older ones stay here so that a roll-back and a redo find them."""

APIS: dict[str, str] = {
    "openai": "openai-chat",
    "openai-chat": "openai-chat",
    "openai-compat": "openai-compat",
    "anthropic": "anthropic",
}
"""Adapter name by the word an endpoint's configuration or a history uses for its API."""


def adapter(name: str) -> Adapter:
    """The adapter `name@version`, or the newest of that name.

    Raises UnknownAdapter where this build has none such.
    """
    base, _, version = name.partition("@")
    found = [one for one in ADAPTERS if one.name == base and version in ("", str(one.version))]
    if not found:
        known = ", ".join(sorted(f"{one.name}@{one.version}" for one in ADAPTERS))
        raise UnknownAdapter(f"no adapter of that name and version; known: {known}")
    return max(found, key=lambda one: one.version)


def adapter_for_api(api: str) -> Adapter:
    """The newest adapter of an API. Raises UnknownAdapter."""
    if api not in APIS:
        raise UnknownAdapter(f"no adapter for this API; known: {', '.join(sorted(APIS))}")
    return adapter(APIS[api])


def build_manifest(
    sequence: MessageSequence,
    rendered: RenderedRequest,
    adapter: Adapter,
    *,
    operation_id: str,
    provider: str,
    created_at_ms: int,
) -> DispatchManifest:
    """The manifest of exactly these bytes. provider: the endpoint. created_at_ms is outside the digest."""
    if rendered.method != "POST":
        raise AdapterError("a manifest names a POST request")
    draft = DispatchManifest(
        operation_id=operation_id,
        tenant=sequence.tenant,
        conversation=sequence.conversation,
        conversation_revision=sequence.conversation_revision,
        sequence_digest=sequence.sequence_digest,
        adapter=f"{adapter.name}@{adapter.version}",
        adapter_digest=adapter.digest,
        normaliser=adapter.normaliser,
        profile=adapter.profile,
        provider=provider,
        model=sequence.model_revision,
        toolset_digest=sequence.toolset_digest,
        policy_digest=sequence.policy_digest,
        path=rendered.path,
        request_digest=request_digest(rendered.method, rendered.path, rendered.body, rendered.headers),
        request_bytes=len(rendered.body),
        token_count=rendered.token_estimate,
        max_output_tokens=sequence.max_output_tokens,
        manifest_digest=EMPTY_HISTORY,
        created_at_ms=created_at_ms,
    )
    return draft.model_copy(update={"manifest_digest": manifest_digest(draft)})


def manifest_matches(manifest: DispatchManifest, rendered: RenderedRequest) -> bool:
    """Whether these bytes are the ones the manifest names; anything else is render drift."""
    return manifest.request_digest == request_digest(rendered.method, rendered.path, rendered.body, rendered.headers)
