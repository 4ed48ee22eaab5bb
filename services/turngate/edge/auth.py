"""Who may speak for a tenant: bearer tokens from TURNGATE_EDGE_TOKENS."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import cast

from pydantic import SecretStr, TypeAdapter, ValidationError

from turngate.runtime.endpoints import read_secret
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError

VARIABLE = "TURNGATE_EDGE_TOKENS"
FORM = "tenant=env:VARIABLE or tenant=file:PATH, by comma, or @ and a JSON file that maps each tenant to its tokens"

_FILE = TypeAdapter(dict[str, list[SecretStr]])


class Gatekeeper:
    """Knows every token; without any (in dev) every caller may do everything."""

    def __init__(self, tokens: Mapping[str, tuple[SecretStr, ...]]) -> None:
        self._tokens = tokens

    @property
    def open(self) -> bool:
        return not self._tokens

    def tenants(self, token: str) -> frozenset[str]:
        """The tenants a token speaks for. Compares with every token there is, each in constant time."""
        given = _digest(token)
        return frozenset(
            [
                tenant
                for tenant, tokens in self._tokens.items()
                if any([hmac.compare_digest(given, _digest(known.get_secret_value())) for known in tokens])
            ]
        )


def read_tokens(settings: Settings, environ: Mapping[str, str] = os.environ) -> Gatekeeper:
    """The tokens as they are now. Raises ConfigurationError where one is missing, or none is declared outside dev."""
    value = settings.edge_tokens
    if not value:
        if settings.environment != "dev":
            raise ConfigurationError(f"{VARIABLE} is not set: set it to {FORM}; only in dev may the edge stand open")
        return Gatekeeper({})
    pairs = _from_file(Path(value[1:])) if value.startswith("@") else _from_sources(value, environ)
    tokens: dict[str, tuple[SecretStr, ...]] = {}
    for tenant, token in pairs:
        if not settings.allows_tenant(tenant):
            raise ConfigurationError(f"{VARIABLE} names tenant {tenant}: add it to TURNGATE_TENANTS")
        if not token.get_secret_value():
            raise ConfigurationError(f"{VARIABLE}: a token of tenant {tenant} is missing or empty")
        tokens[tenant] = (*tokens.get(tenant, ()), token)
    if not tokens:
        raise ConfigurationError(f"{VARIABLE} holds no token: set it to {FORM}")
    return Gatekeeper(tokens)


def _from_sources(value: str, environ: Mapping[str, str]) -> Iterator[tuple[str, SecretStr]]:
    for entry in filter(None, (part.strip() for part in value.split(","))):
        tenant, _, source = entry.partition("=")
        kind, _, name = source.partition(":")
        if not tenant or kind not in ("env", "file") or not name:
            # The entry itself is not shown: somebody may have put a token where its source belongs.
            raise ConfigurationError(f"{VARIABLE} has an entry of another form: set it to {FORM}")
        yield tenant, SecretStr(environ.get(name, "") if kind == "env" else read_secret(Path(name)))


def _from_file(path: Path) -> Iterator[tuple[str, SecretStr]]:
    try:
        found = _FILE.validate_python(cast(object, json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{VARIABLE} names a file that cannot be read") from None
    except (json.JSONDecodeError, ValidationError):
        raise ConfigurationError(f'{VARIABLE} names a file of another form: {{"tenant": ["token", ...]}}') from None
    for tenant, tokens in found.items():
        for token in tokens:
            yield tenant, token


def _digest(token: str) -> bytes:
    """Equal lengths, so that a comparison tells nothing about a token's."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
