"""Settings of every process, from TURNGATE_* environment variables. Errors name the variable and what to set."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, cast

from pydantic import Field, SecretStr, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from turngate.runtime.addresses import check_brokers, check_redis_url, misspelt
from turngate.runtime.endpoints import Endpoint
from turngate.runtime.tls import RedisOptions, kafka_options, redis_options
from turngate.schemas.base import NAME_LENGTH_MAX, NAME_PATTERN
from turngate.schemas.errors import ConfigurationError
from turngate.topology.client import ClientOptions
from turngate.topology.desired import STREAM_OPEN_MS_MAX
from turngate.topology.keys import check_partitions

PREFIX = "TURNGATE_"
ALL_TENANTS = "*"

_ENDPOINTS = TypeAdapter(tuple[Endpoint, ...])
PositiveInt = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
INSTANCE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""It is a Kafka group instance id, too, which takes no other characters."""
OTHERS = ("BOOTSTRAP", "BROKER_NAME", "EXECUTOR_INSTANCE_ID", "SIM_KEY", "STACK_CONTROL", "TENANT")
"""Variables of make, the test stack, the executor SDK and the command line."""


class Settings(BaseSettings):
    """One frozen object per process. `load_settings` reads it from the environment."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    kafka: str = Field(min_length=1, description="bootstrap servers, host:port[,host:port]")
    redis: str = Field(min_length=1, repr=False, description="redis://host:port/0 or rediss://host:port/0")
    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = "turngate"
    partitions: int = 8
    environment: Literal["dev", "staging", "production"] = "production"
    instance_id: str = Field(default_factory=socket.gethostname, min_length=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    http_host: str | None = None
    http_port: Annotated[int, Field(ge=0, le=65535)] = 0
    http_port_file: Path | None = None

    tenants: Annotated[tuple[str, ...], NoDecode] = ()
    endpoints: Annotated[tuple[Endpoint, ...], NoDecode] = ()

    lease_ms: PositiveInt = 10_000
    renew_ms: PositiveInt = 3_000
    stream_open_seconds: Annotated[float, Field(gt=0, le=STREAM_OPEN_MS_MAX / 1000, allow_inf_nan=False)] = 1_800.0
    drain_seconds: Seconds = 20.0

    plant: Literal["resend"] | None = None
    retry_base_ms: PositiveInt = 2_000
    retry_ceiling_ms: PositiveInt = 30_000
    retries_max: Annotated[int, Field(ge=0, le=5)] = 5
    retry_blocked: bool = False

    edge_tokens: str | None = Field(default=None, repr=False)
    edge_body_bytes_max: PositiveInt = 1024 * 1024
    edge_streams_max: PositiveInt = 1_000
    edge_heartbeat_seconds: Seconds = 15.0
    edge_replay_events_max: PositiveInt = 1_000
    edge_replay_bytes_max: PositiveInt = 4 * 1024 * 1024
    edge_replay_seconds: Seconds = 3_600.0

    transaction_timeout_ms: PositiveInt = 10_000
    batch_records_max: Annotated[int, Field(ge=1, le=500)] = 500
    batch_bytes_max: PositiveInt = 16 * 1024 * 1024
    queue_records_max: PositiveInt = 2_000
    queue_bytes_max: PositiveInt = 64 * 1024 * 1024
    hold_ms: Annotated[int, Field(ge=0, le=1000)] = 100

    session_timeout_ms: Annotated[int, Field(ge=1_000)] = 10_000
    rebalance_timeout_ms: Annotated[int, Field(ge=1_000)] = 20_000
    request_timeout_ms: Annotated[int, Field(ge=1_000)] = 30_000
    static_membership: bool = False

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    kafka_username: str | None = None
    kafka_password: SecretStr | None = None
    kafka_password_file: Path | None = None
    kafka_ca_file: Path | None = None
    kafka_cert_file: Path | None = None
    kafka_key_file: Path | None = None
    kafka_check_hostname: bool = True

    redis_username: str | None = None
    redis_password: SecretStr | None = None
    redis_password_file: Path | None = None
    redis_ca_file: Path | None = None
    redis_check_hostname: bool = True

    _brokers = field_validator("kafka")(check_brokers)
    _redis_url = field_validator("redis")(check_redis_url)

    @field_validator("instance_id")
    @classmethod
    def _plain_instance_id(cls, value: str) -> str:
        if INSTANCE_ID.fullmatch(value) is None:
            raise ValueError("is not a plain name: set letters, digits, dots, dashes and underscores, at most 200")
        return value

    @field_validator("tenants")
    @classmethod
    def _plain_tenants(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if ALL_TENANTS in value and len(value) > 1:
            raise ValueError("holds * and more: set * alone, or list the tenants")
        if any(name != ALL_TENANTS and not _is_name(name) for name in value) or len(set(value)) != len(value):
            raise ValueError("is not a list of tenant names: set each once, by comma, of the characters a tenant has")
        return value

    @field_validator("tenants", mode="before")
    @classmethod
    def _split_tenants(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(name.strip() for name in value.split(",") if name.strip())

    @field_validator("endpoints", mode="before")
    @classmethod
    def _read_endpoints(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            text = Path(value[1:]).read_text(encoding="utf-8") if value.startswith("@") else value
        except (OSError, UnicodeDecodeError):
            raise ValueError("names a file that cannot be read: set JSON, or @ and a readable path") from None
        try:
            return _ENDPOINTS.validate_python(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"is not JSON at line {error.lineno}: set a list of endpoints") from None
        except ValidationError as error:
            raise ValueError(
                "; ".join(_endpoint_problem(item["loc"], item["msg"]) for item in error.errors())
            ) from None

    @field_validator("endpoints")
    @classmethod
    def _unique_endpoints(cls, value: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        if len({endpoint.name for endpoint in value}) != len(value):
            raise ValueError("names an endpoint twice: give every endpoint its own name")
        return value

    @field_validator("partitions")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        check_partitions(value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if ALL_TENANTS in self.tenants and self.environment != "dev":
            raise ValueError(f"{PREFIX}TENANTS is * outside dev: list the tenants, or set {PREFIX}ENVIRONMENT=dev")
        if self.renew_ms * 2 > self.lease_ms:
            raise ValueError(
                f"{PREFIX}RENEW_MS is above half of {PREFIX}LEASE_MS: a lease must survive one lost renewal"
            )
        if self.rebalance_timeout_ms >= self.request_timeout_ms:
            raise ValueError(
                f"{PREFIX}REQUEST_TIMEOUT_MS must be above {PREFIX}REBALANCE_TIMEOUT_MS: a join waits that long"
            )
        if self.plant is not None and self.environment != "dev":
            raise ValueError(f"{PREFIX}PLANT takes a fence away for a test: unset it outside dev")
        if self.kafka_security_protocol.startswith("SASL") and self.kafka_username is None:
            raise ValueError(
                f"{PREFIX}KAFKA_USERNAME is not set: {self.kafka_security_protocol} needs it and a password"
            )
        return self

    @property
    def bind_host(self) -> str:
        """Where HTTP listens: TURNGATE_HTTP_HOST, else loopback in dev and every interface of the pod elsewhere."""
        if self.http_host is not None:
            return self.http_host
        return "127.0.0.1" if self.environment == "dev" else "0.0.0.0"  # noqa: S104 - probes come from outside

    def allows_tenant(self, tenant: str) -> bool:
        """Whether this fleet serves the tenant."""
        return tenant in self.tenants or ALL_TENANTS in self.tenants

    def kafka_client_options(self) -> ClientOptions:
        """What every aiokafka client takes beside `bootstrap_servers`. Raises ConfigurationError: unreadable files."""
        return kafka_options(
            client_id=f"turngate-{self.instance_id}",
            request_timeout_ms=self.request_timeout_ms,
            protocol=self.kafka_security_protocol,
            mechanism=self.kafka_sasl_mechanism,
            username=self.kafka_username,
            password=self.kafka_password,
            password_file=self.kafka_password_file,
            ca_file=self.kafka_ca_file,
            cert_file=self.kafka_cert_file,
            key_file=self.kafka_key_file,
            check_hostname=self.kafka_check_hostname,
        )

    def redis_client_options(self) -> RedisOptions:
        """What `redis.asyncio.Redis.from_url` takes beside the URL. Raises ConfigurationError on unreadable files."""
        return redis_options(
            url=self.redis,
            username=self.redis_username,
            password=self.redis_password,
            password_file=self.redis_password_file,
            ca_file=self.redis_ca_file,
            check_hostname=self.redis_check_hostname,
        )


def load_kafka_options(kafka: str) -> ClientOptions:
    """What a command that only reads topics needs beside the broker's address: no Redis, no tenants.

    Raises ConfigurationError.
    """
    try:
        return Settings(kafka=kafka, redis="redis://none").kafka_client_options()
    except ValidationError as error:
        lines = [_problem(item["loc"], item["type"], item["msg"]) for item in error.errors()]
        raise ConfigurationError("\n".join(lines)) from None


def load_settings() -> Settings:
    """The settings of this process. Raises ConfigurationError: one line per variable, never a value.

    A variable that means nothing and is nearly the name of one that does is an error as well.
    """
    lines = [f"{name} means nothing: set {meant} instead" for name, meant in strangers(os.environ).items() if meant]
    settings: Settings | None = None
    try:
        settings = cast(Callable[[], Settings], Settings)()
    except ValidationError as error:
        lines += [_problem(item["loc"], item["type"], item["msg"]) for item in error.errors()]
    if settings is None or lines:
        raise ConfigurationError("\n".join(lines))
    return settings


def strangers(environ: Mapping[str, str]) -> dict[str, str]:
    """TURNGATE_* variables that mean nothing -> the one that was meant, '' where none is near.

    A name that another variable's value mentions has a meaning: keys of providers and tokens of callers have names of
    the operator's choice.
    """
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    named = {PREFIX + field.upper() for field in Settings.model_fields} | {PREFIX + name for name in OTHERS}
    spared = set(_mentioned(ours.values())) | {name for name in ours if name.startswith(f"{PREFIX}TEST_")}
    return misspelt(ours, named, spared=spared)


def _mentioned(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        text = value
        if value.startswith("@"):
            try:
                text = Path(value[1:]).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue  # whoever needs the file says so
        yield from re.findall(rf"\b{PREFIX}[A-Z0-9_]+", text)


def _is_name(text: str) -> bool:
    return len(text) <= NAME_LENGTH_MAX and re.fullmatch(NAME_PATTERN.strip("^$"), text) is not None


def _problem(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    text = message.removeprefix("Value error, ")
    if not loc:
        return text
    field = str(loc[0]).lower()
    name = PREFIX + field.removeprefix(PREFIX.lower()).upper()
    if kind == "missing":
        hint = Settings.model_fields[field].description or "a value"
        return f"{name} is not set: set it to {hint}"
    return f"{name}: {text}"


def _endpoint_problem(loc: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in loc)
    return f"endpoint {where}: {message.removeprefix('Value error, ')}"
