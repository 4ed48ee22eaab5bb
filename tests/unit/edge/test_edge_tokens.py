"""Who may speak for a tenant, and what a wrong TURNGATE_EDGE_TOKENS says."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.edge.auth import read_tokens
from turngate.runtime.settings import Settings
from turngate.schemas.errors import ConfigurationError

ENVIRON = {"ACME_TOKEN": "open-sesame", "EMPTY": ""}


def settings(tokens: str | None, environment: str = "production") -> Settings:
    return Settings.model_validate(
        {
            "kafka": "k:1", "redis": "redis://r:1/0", "tenants": ("acme", "other"), "environment": environment,
            "edge_tokens": tokens,
        }
    )  # fmt: skip


def test_a_token_speaks_for_its_tenant_and_for_no_other(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    keeper = read_tokens(settings(f"acme=env:ACME_TOKEN, acme=file:{tmp_path / 'token'},other=env:ACME_TOKEN"), ENVIRON)
    assert not keeper.open
    assert keeper.tenants("open-sesame") == {"acme", "other"}
    assert keeper.tenants("from-a-file") == {"acme"}
    for wrong in ("", "open-sesam", "open-sesame ", "\udc80"):
        assert keeper.tenants(wrong) == frozenset()


def test_tokens_come_from_one_json_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"acme": ["one", "two"]}')
    keeper = read_tokens(settings(f"@{file}"), {})
    assert (keeper.tenants("one"), keeper.tenants("two")) == ({"acme"}, {"acme"})


def test_only_dev_may_stand_open() -> None:
    assert read_tokens(settings(None, "dev"), {}).open
    with pytest.raises(ConfigurationError, match="TURNGATE_EDGE_TOKENS is not set"):
        read_tokens(settings(None), {})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("acme=secret-token", "another form"),
        ("secret-token", "another form"),
        ("acme=env:", "another form"),
        (" , ", "holds no token"),
        ("acme=env:EMPTY", "missing or empty"),
        ("acme=env:NOWHERE", "missing or empty"),
        ("acme=file:nowhere/secret-token", "missing or empty"),
        ("stranger=env:ACME_TOKEN", "add it to TURNGATE_TENANTS"),
        ("@nowhere/tokens.json", "cannot be read"),
    ],
)
@pytest.mark.parametrize("environment", ["dev", "production"])
def test_what_is_wrong_is_said_without_showing_a_token(value: str, said: str, environment: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_tokens(settings(value, environment), ENVIRON)
    assert "secret-token" not in str(caught.value)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{", '{"acme": "one"}', '{"acme": [1]}', '{"acme": []}', '{"acme": [""]}'])
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError):
        read_tokens(settings(f"@{file}"), {})
