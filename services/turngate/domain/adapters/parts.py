"""Small pure helpers the adapters share: exact JSON fragments, image parts, runs of adjacent blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import orjson

from turngate.domain.adapters.base import AdapterError, UnsupportedKind
from turngate.schemas.blocks import Block

JsonObject = dict[str, object]
Speaker = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent blocks of one speaker: what an API calls a message."""

    speaker: Speaker
    blocks: tuple[Block, ...]


def runs(blocks: Iterable[Block]) -> Iterator[Run]:
    """Blocks grouped by speaker, adjacent ones joined; developer text counts as system."""
    speaker: Speaker | None = None
    gathered: list[Block] = []
    for block in blocks:
        own: Speaker = "system" if block.role == "developer" else block.role
        if own != speaker and speaker is not None:
            yield Run(speaker, tuple(gathered))
            gathered = []
        speaker = own
        gathered.append(block)
    if speaker is not None:
        yield Run(speaker, tuple(gathered))


def object_fragment(raw: str, *, where: str) -> orjson.Fragment:
    """The exact text of a JSON object, to be embedded as it is. Raises AdapterError for anything else."""
    try:
        plain = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise AdapterError(f"{where} is not JSON", code="incomplete_arguments") from None
    if not isinstance(plain, dict):
        raise AdapterError(f"{where} is not a JSON object", code="incomplete_arguments")
    return orjson.Fragment(raw)


def opaque_fragment(block: Block) -> orjson.Fragment:
    """An opaque provider part, embedded byte for byte."""
    if block.content.data is None:
        raise UnsupportedKind(f"block {block.id} has no data to replay", kind=block.kind, block_id=block.id)
    return object_fragment(block.content.data, where=f"data of block {block.id}")


@dataclass(frozen=True, slots=True)
class Media:
    """An image or document source: either a URL or base64 data with its media type."""

    url: str | None = None
    media_type: str | None = None
    base64: str | None = None


def media_of(block: Block) -> Media | None:
    """The neutral source of a media block, None where its `data` is a provider part of an unknown form.

    Known: base64 text beside `media_type`, an `image_url` part, and a part with a `source` of type base64 or
    url.
    """
    data = block.content.data
    if data is None:
        return None
    if not data.lstrip().startswith("{"):
        return Media(media_type=block.content.media_type, base64=data) if block.content.media_type else None
    try:
        plain: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(plain, dict):
        return None
    image = plain.get("image_url")
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        return _from_url(image["url"])
    source = plain.get("source")
    return _from_source(source) if isinstance(source, dict) else None


def _from_url(url: str) -> Media:
    if url.startswith("data:") and ";base64," in url:
        head, _, body = url.partition(";base64,")
        return Media(media_type=head.removeprefix("data:"), base64=body)
    return Media(url=url)


def _from_source(source: dict[object, object]) -> Media | None:
    kind, url, media, data = (source.get(key) for key in ("type", "url", "media_type", "data"))
    if kind == "url" and isinstance(url, str):
        return Media(url=url)
    if kind == "base64" and isinstance(media, str) and isinstance(data, str):
        return Media(media_type=media, base64=data)
    return None


def part_type(block: Block) -> str | None:
    """The `type` an opaque part declares, None where it has none."""
    try:
        plain: object = orjson.loads(block.content.data or "null")
    except orjson.JSONDecodeError:
        return None
    found = plain.get("type") if isinstance(plain, dict) else None
    return found if isinstance(found, str) else None


def listed_types(block: Block) -> frozenset[str]:
    """The types of the parts where `data` is a JSON list of typed objects, else none."""
    try:
        plain: object = orjson.loads(block.content.data or "null")
    except orjson.JSONDecodeError:
        return frozenset()
    listed = cast(list[object], plain) if isinstance(plain, list) else []
    types = [one.get("type") if isinstance(one, dict) else None for one in listed]
    return frozenset(kind if isinstance(kind, str) else "" for kind in types)


def result_text(block: Block) -> str:
    """The text of a tool result; a failure that says nothing says at least that."""
    text = block.content.text or ""
    if not text and block.content.status in ("error", "cancelled"):
        return f"[tool call {'failed' if block.content.status == 'error' else 'cancelled'}]"
    return text
