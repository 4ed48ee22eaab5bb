"""Provider endpoints as an operator declares them (TURNGATE_ENDPOINTS)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from turngate.schemas.errors import ConfigurationError

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
    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$")]
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

    def credential(self, environ: Mapping[str, str] = os.environ) -> SecretStr | None:
        """The credential as it is now, so that a rotated file is seen; None where none is declared.

        Raises ConfigurationError where it is declared and missing.
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
        return SecretStr(value)


def read_secret(path: Path) -> str:
    """A secret file's text without the line end; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
