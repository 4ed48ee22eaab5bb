"""Provider endpoints as an operator declares them (TURNGATE_ENDPOINTS)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from turngate.schemas.errors import ConfigurationError

OWN_HEADERS = frozenset({
    "accept", "accept-encoding", "anthropic-beta", "anthropic-version", "api-key", "authorization", "connection",
    "content-length", "content-type", "cookie", "expect", "host", "idempotency-key", "openai-beta",
    "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "x-api-key", "x-goog-api-key",
    "x-turngate-generation", "x-turngate-operation",
})  # fmt: skip
"""Headers an operator cannot set: credentials have settings of their own, the adapter's are part of the request digest,
the rest is the client's."""

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
"""Printable ASCII: anything else the HTTP client refuses in words that quote it."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~:@+-]{0,127}$")]


class Endpoint(BaseModel):
    """One endpoint. close_ends_generation and idempotent_replay are facts about the provider (DESIGN §6): they
    stay false unless its documentation says otherwise. time_limit_seconds: after which the provider has ended
    a generation by itself.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )

    name: Name
    api: Literal["openai-chat", "anthropic"]
    profile: str
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#@/]+(?:/[^\s?#]*)?$")]
    credential_env: str | None = None
    credential_file: Path | None = None
    close_ends_generation: bool = False
    idempotent_replay: bool = False
    time_limit_seconds: Annotated[float, Field(gt=0)] | None = None
    headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if self.credential_env is not None and self.credential_file is not None:
            raise ValueError("names both credentialEnv and credentialFile: keep one")
        return self

    @model_validator(mode="after")
    def _plain_headers(self) -> Self:
        for name, value in self.headers.items():
            if HEADER_NAME.fullmatch(name) is None or HEADER_VALUE.fullmatch(value) is None:
                raise ValueError("headers must be names and values of printable ASCII")
            if name.lower() in OWN_HEADERS:
                raise ValueError(f"headers cannot set {name.lower()}: turngate sends its own")
        if len({name.lower() for name in self.headers}) != len(self.headers):
            raise ValueError("headers name one twice")
        return self

    def credential(self, environ: Mapping[str, str] = os.environ) -> SecretStr | None:
        """The credential as it is now, so that a rotated file is seen; None where none is declared.

        Raises ConfigurationError where it is declared and missing, or cannot be sent in a header.
        """
        if self.credential_env is not None:
            value = environ.get(self.credential_env, "")
            source = f"variable {self.credential_env}"
        elif self.credential_file is not None:
            value = read_secret(self.credential_file)
            source = f"file {self.credential_file}"
        else:
            return None
        if not value:
            raise ConfigurationError(f"endpoint {self.name}: its credential's {source} is missing or empty")
        if HEADER_VALUE.fullmatch(value) is None:
            raise ConfigurationError(f"endpoint {self.name}: its credential's {source} is not printable ASCII")
        return SecretStr(value)


def read_secret(path: Path) -> str:
    """A secret file's text without the line end; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
