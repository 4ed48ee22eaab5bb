"""What every record has in common: frozen, strict, camelCase on the wire, a schema name and a version."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer of our own records (RFC 8785 numbers are doubles)."""

NAME_LENGTH_MAX = 128
"""Of a tenant's or a conversation's name, in characters; they are ASCII."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~:@+-]*$"

Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_LENGTH_MAX, pattern=NAME_PATTERN)]
"""An identifier of ours that appears inside keys: tenant, conversation, endpoint. No slash, no pipe."""

Identifier = Annotated[str, StringConstraints(min_length=1, max_length=256)]
"""An identifier that only appears as a value: request ids, call ids, provider handles."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""sha256 in lowercase hex."""

Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Generation = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Millis = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
"""Milliseconds since the Unix epoch, or a duration in milliseconds where the name says so."""


class Model(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        ser_json_inf_nan="null",
    )


class Record(Model):
    """A whole record of a topic. Subclasses pin `schema_name` and `schema_version` as literals."""

    SCHEMA: ClassVar[str] = ""
    """Name of the schema, e.g. `MessageSequence`; the wire form is `schema: "MessageSequence.v1"`."""
