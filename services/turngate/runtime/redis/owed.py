"""Records owed: what a state-changing script stores so that a redo publishes the very same bytes (DESIGN §4 rule 2)."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from turngate.runtime.records import Output
from turngate.schemas.errors import InvalidRecord


def pack(outputs: Iterable[Output]) -> bytes:
    """The stored form of a list of records. Values and header values are UTF-8 (our records are JSON)."""
    return orjson.dumps(
        [
            [out.topic, out.key.decode(), out.value.decode(), [[name, value.decode()] for name, value in out.headers],
             out.partition]
            for out in outputs
        ]
    )  # fmt: skip


def unpack(stored: bytes) -> list[Output]:
    """The records of a stored answer, byte for byte as they were. Raises InvalidRecord on bytes `pack` did not make."""
    if not stored:
        return []
    try:
        rows = orjson.loads(stored)
        return [
            Output(
                topic=topic,
                key=key.encode(),
                value=value.encode(),
                headers=tuple((name, text.encode()) for name, text in headers),
                partition=partition,
            )
            for topic, key, value, headers, partition in rows
        ]
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRecord("stored records cannot be read") from error
