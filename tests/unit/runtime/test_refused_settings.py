"""A wrong variable stops a role with 78 and its name, before anything is touched; no value is ever printed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turngate.runtime.app import EXIT_CONFIGURATION, run_role
from turngate.runtime.settings import load_settings, strangers
from turngate.schemas.errors import ConfigurationError

GOOD = {"TURNGATE_KAFKA": "127.0.0.1:9092", "TURNGATE_REDIS": "redis://127.0.0.1:6379/0", "TURNGATE_TENANTS": "acme"}
WRONG = [
    ("TURNGATE_KAFKA", "http://kafka:9092"),
    ("TURNGATE_KAFKA", "kafka"),
    ("TURNGATE_KAFKA", "kafka:port"),
    ("TURNGATE_KAFKA", "kafka:0"),
    ("TURNGATE_KAFKA", "kafka:65536"),
    ("TURNGATE_KAFKA", "kafka-1:9092,,kafka-2:9092"),
    ("TURNGATE_KAFKA", "kafka-1:9092;kafka-2:9092"),
    ("TURNGATE_KAFKA", ":9092"),
    ("TURNGATE_REDIS", "127.0.0.1:6379"),
    ("TURNGATE_REDIS", "http://127.0.0.1:6379"),
    ("TURNGATE_REDIS", "redis:///7"),
    ("TURNGATE_REDIS", "redis://:6379/0"),
    ("TURNGATE_REDIS", "redis://hidden-secret@h:99999/0"),
    ("TURNGATE_REDIS", "redis://h:port/0"),
    ("TURNGATE_REDIS", "redis://h:6379/zero"),
    ("TURNGATE_TENANTS", "acme,a/b"),
    ("TURNGATE_TENANTS", "acme;other"),
    ("TURNGATE_TENANTS", "acme,acme"),
    ("TURNGATE_TENANTS", "*,acme"),
    ("TURNGATE_TENANTS", "a" * 129),
    ("TURNGATE_INSTANCE_ID", "dispatcher 0"),
    ("TURNGATE_INSTANCE_ID", "a/b"),
    ("TURNGATE_INSTANCE_ID", "-a"),
    ("TURNGATE_INSTANCE_ID", "d" * 201),
    ("TURNGATE_DRAIN_SECONDS", "inf"),
    ("TURNGATE_DRAIN_SECONDS", "nan"),
    ("TURNGATE_DRAIN_SECONDS", "-1"),
    ("TURNGATE_EDGE_HEARTBEAT_SECONDS", "inf"),
    ("TURNGATE_LEASE_MS", "10s"),
]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_ends_a_role_with_78_and_names_its_variable(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    environ.setenv(name, value)

    async def body(context: object) -> None:
        raise AssertionError("a role with a wrong setting must not begin")

    assert asyncio.run(run_role("ledger", body)) == EXIT_CONFIGURATION
    said = capsys.readouterr().err
    assert name in said
    assert value not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TURNGATE_KAFKA", "kafka-1.example.org:9092, 10.0.0.2:9093,[::1]:9092"),
        ("TURNGATE_REDIS", "rediss://user:p%40ss@redis.example.org"),
        ("TURNGATE_REDIS", "redis://[::1]:6379/12"),
        ("TURNGATE_TENANTS", " acme , other-1,a.b@c "),
        ("TURNGATE_INSTANCE_ID", "turngate-dispatcher-0.turngate"),
        ("TURNGATE_DRAIN_SECONDS", "0.5"),
    ],
)
def test_what_is_right_is_taken(environ: pytest.MonkeyPatch, name: str, value: str) -> None:
    environ.setenv(name, value)
    load_settings()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TURNGATE_TENANT_S", "TURNGATE_TENANTS"),
        ("TURNGATE_LEASE_MSEC", "TURNGATE_LEASE_MS"),
        ("TURNGATE_DRAIN_SECOND", "TURNGATE_DRAIN_SECONDS"),
        ("TURNGATE_INSTANCEID", "TURNGATE_INSTANCE_ID"),
        ("TURNGATE_ENDPOINT", "TURNGATE_ENDPOINTS"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_right_one(
    environ: pytest.MonkeyPatch, given: str, meant: str
) -> None:
    environ.setenv(given, "5")
    with pytest.raises(ConfigurationError, match=f"{given} means nothing: set {meant} instead"):
        load_settings()


def test_what_has_a_meaning_of_its_own_is_no_misspelling(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "endpoints.json"
    file.write_text(
        '[{"name": "o", "api": "openai-chat", "profile": "openai", "baseUrl": "http://h", '
        '"credentialEnv": "TURNGATE_ENDPOINTS_KEY"}]'
    )
    environ.setenv("TURNGATE_ENDPOINTS", f"@{file}")
    environ.setenv("TURNGATE_ENDPOINTS_KEY", "k")
    environ.setenv("TURNGATE_EDGE_TOKENS", "acme=env:TURNGATE_EDGE_TOKEN")
    environ.setenv("TURNGATE_EDGE_TOKEN", "t")
    environ.setenv("TURNGATE_HTTP_PORT_8080_TCP", "tcp://10.0.0.1:8080")
    environ.setenv("TURNGATE_EDGE_SERVICE_PORT", "8080")
    environ.setenv("TURNGATE_EXECUTOR_INSTANCE_ID", "tools-0")
    load_settings()


def test_what_is_near_nothing_is_only_told(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("TURNGATE_OF_OUR_OWN", "1")
    load_settings()
    assert strangers({**GOOD, "TURNGATE_OF_OUR_OWN": "1"}) == {"TURNGATE_OF_OUR_OWN": ""}
