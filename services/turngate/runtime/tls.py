"""Security options of the Kafka and Redis clients, from files and names."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from pydantic import SecretStr

from turngate.runtime.endpoints import read_secret
from turngate.schemas.errors import ConfigurationError
from turngate.topology.client import ClientOptions


class RedisOptions(TypedDict, total=False):
    """Keyword arguments of `Redis.from_url`."""

    username: str
    password: str
    ssl_ca_certs: str
    ssl_check_hostname: bool


def kafka_options(
    *,
    client_id: str,
    request_timeout_ms: int,
    protocol: str,
    mechanism: str,
    username: str | None,
    password: SecretStr | None,
    password_file: Path | None,
    ca_file: Path | None,
    cert_file: Path | None,
    key_file: Path | None,
    check_hostname: bool,
) -> ClientOptions:
    """Raises ConfigurationError naming the variable whose file cannot be used."""
    options = ClientOptions(client_id=client_id, request_timeout_ms=request_timeout_ms, security_protocol=protocol)
    if protocol.startswith("SASL"):
        options["sasl_mechanism"] = mechanism
        options["sasl_plain_username"] = username or ""
        options["sasl_plain_password"] = _password("KAFKA", password, password_file)
    if protocol.endswith("SSL"):
        options["ssl_context"] = _context(ca_file, cert_file, key_file, check_hostname)
    return options


def redis_options(
    *,
    url: str,
    username: str | None,
    password: SecretStr | None,
    password_file: Path | None,
    ca_file: Path | None,
    check_hostname: bool,
) -> RedisOptions:
    """Raises ConfigurationError naming the variable that cannot be used."""
    options = RedisOptions()
    if username is not None:
        options["username"] = username
    if password is not None or password_file is not None:
        options["password"] = _password("REDIS", password, password_file)
    if urlsplit(url).scheme == "rediss":
        options["ssl_check_hostname"] = check_hostname
        if ca_file is not None:
            options["ssl_ca_certs"] = str(ca_file)
    elif ca_file is not None:
        raise ConfigurationError("TURNGATE_REDIS_CA_FILE is set but TURNGATE_REDIS is not a rediss:// address")
    return options


def _password(which: str, password: SecretStr | None, file: Path | None) -> str:
    text = password.get_secret_value() if password is not None else read_secret(file) if file is not None else ""
    if not text:
        raise ConfigurationError(
            f"TURNGATE_{which}_PASSWORD_FILE: no password there; name a readable file that holds it"
        )
    return text


def _context(
    ca_file: Path | None, cert_file: Path | None, key_file: Path | None, check_hostname: bool
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ConfigurationError("TURNGATE_KAFKA_CA_FILE: not a readable PEM file of certificates") from None
    context.check_hostname = check_hostname
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError):
            raise ConfigurationError(
                "TURNGATE_KAFKA_CERT_FILE, TURNGATE_KAFKA_KEY_FILE: not a readable PEM certificate and its key"
            ) from None
    return context
