"""The compose file starts things in the right order, with stable names and no rights to spare."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from turngate.runtime.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
ROLES = {"validator", "dispatcher", "reassembler", "ledger", "recovery", "edge", "observer"}


@pytest.fixture(scope="module")
def services(tools: ModuleType) -> dict[str, dict[str, Any]]:
    done = tools.compose_config()
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = yaml.safe_load(done.stdout)["services"]
    return found


def test_seven_roles_two_servers_one_job(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == ROLES | {"kafka", "redis", "topology"}
    assert all(services[role]["command"] == ["run", role] for role in ROLES)


def test_roles_wait_for_topology_and_servers(services: dict[str, dict[str, Any]]) -> None:
    for role in ROLES:
        needs = {name: need["condition"] for name, need in services[role]["depends_on"].items()}
        assert needs == {
            "kafka": "service_healthy",
            "redis": "service_healthy",
            "topology": "service_completed_successfully",
        }
    assert services["topology"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert services["topology"]["restart"] == "on-failure"


def test_everything_that_stays_is_checked(services: dict[str, dict[str, Any]]) -> None:
    assert all("test" in services[name]["healthcheck"] for name in set(services) - {"topology"})


def test_instance_ids_are_fixed_and_different(services: dict[str, dict[str, Any]]) -> None:
    ids = [services[role]["environment"]["TURNGATE_INSTANCE_ID"] for role in sorted(ROLES)]
    assert len(set(ids)) == len(ids)


def test_roles_have_no_rights_to_spare(services: dict[str, dict[str, Any]]) -> None:
    for role in ROLES | {"topology"}:
        assert services[role]["read_only"] is True
        assert services[role]["cap_drop"] == ["ALL"]
        assert services[role]["security_opt"] == ["no-new-privileges:true"]


def test_only_the_edge_is_published_and_only_here(services: dict[str, dict[str, Any]]) -> None:
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert set(published) == {"edge"}
    assert all(port["host_ip"] == "127.0.0.1" for port in published["edge"])


def test_processes_accept_their_variables(services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    image = dict(re.findall(r"(TURNGATE_\w+)=(\S+)", (ROOT / "Dockerfile").read_text()))
    known = {f"TURNGATE_{name.upper()}" for name in Settings.model_fields}
    for role in sorted(ROLES):
        found = {name: value for name, value in services[role]["environment"].items() if name.startswith("TURNGATE_")}
        assert set(found) <= known
        with monkeypatch.context() as environment:
            for name, value in {**image, **found}.items():
                environment.setenv(name, value)
            settings = Settings()
        assert (settings.http_host, settings.http_port) == ("0.0.0.0", 8080)


def test_redis_neither_forgets_nor_evicts(services: dict[str, dict[str, Any]]) -> None:
    command = " ".join(services["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_health_check_is_a_program_that_the_image_has(services: dict[str, dict[str, Any]]) -> None:
    check = services["edge"]["healthcheck"]["test"]
    assert check[:3] == ["CMD", "python", "-c"]
    compile(check[3], "healthcheck", "exec")
    assert json.dumps(check).count("/readyz") == 1
