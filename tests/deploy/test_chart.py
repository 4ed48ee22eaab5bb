"""The chart renders what a strict cluster admits, with the settings that the processes read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from turngate.runtime.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
VALUES = yaml.safe_load((ROOT / "helm/turngate/values.yaml").read_text())
ROLES = {"validator", "dispatcher", "reassembler", "ledger", "recovery", "edge", "observer"}
KNOWN = {f"TURNGATE_{name.upper()}" for name in Settings.model_fields}

Manifests = list[dict[str, Any]]


def kind(manifests: Manifests, wanted: str) -> Manifests:
    return [document for document in manifests if document["kind"] == wanted]


def settings_of(manifests: Manifests) -> dict[str, str]:
    maps = {document["metadata"]["name"]: document["data"] for document in kind(manifests, "ConfigMap")}
    return maps["turngate-settings"]


def pods(manifests: Manifests) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in [*kind(manifests, "StatefulSet"), *kind(manifests, "Job")]:
        yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def variables(manifests: Manifests) -> dict[str, dict[str, str]]:
    """Role -> what its process finds in its environment (its instance id is the name of its pod)."""
    shared = settings_of(manifests)
    found = {}
    for document in kind(manifests, "StatefulSet"):
        own = document["spec"]["template"]["spec"]["containers"][0]["env"]
        found[document["metadata"]["labels"]["app.kubernetes.io/component"]] = {
            **shared,
            **{entry["name"]: entry.get("value", document["metadata"]["name"] + "-0") for entry in own},
        }
    return found


def test_lints_strictly(tools: ModuleType, case: Path) -> None:
    done = tools.lint_chart(case)
    assert done.returncode == 0, done.stdout


def test_one_stateful_set_per_role(manifests: Manifests, case: Path) -> None:
    roles = {
        document["metadata"]["labels"]["app.kubernetes.io/component"] for document in kind(manifests, "StatefulSet")
    }
    switched_off = {name for name, value in (yaml.safe_load(case.read_text()).get("roles") or {}).items() if not value}
    assert roles == ROLES - switched_off


def test_pods_run_with_the_least_rights(manifests: Manifests) -> None:
    for name, pod in pods(manifests):
        assert pod["automountServiceAccountToken"] is False, name
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert set(container["resources"]) == {"requests", "limits"}
            assert "memory" in container["resources"]["limits"]


def test_every_mount_has_its_volume_and_tmp_is_writable(manifests: Manifests) -> None:
    for name, pod in pods(manifests):
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = pod["containers"][0]["volumeMounts"]
        assert {mount["name"] for mount in mounts} == volumes, name
        assert {mount["mountPath"] for mount in mounts if not mount.get("readOnly")} == {"/tmp"}


def test_instance_id_is_the_pod_name(manifests: Manifests) -> None:
    """A successor under the same name is the evidence that its predecessor is gone (send door, recovery)."""
    for document in kind(manifests, "StatefulSet"):
        entries = document["spec"]["template"]["spec"]["containers"][0]["env"]
        instance = next(entry for entry in entries if entry["name"] == "TURNGATE_INSTANCE_ID")
        assert instance["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_roles_are_commands_of_one_image_with_probes(manifests: Manifests) -> None:
    images = set()
    for document in kind(manifests, "StatefulSet"):
        container = document["spec"]["template"]["spec"]["containers"][0]
        images.add(container["image"])
        assert container["args"] == ["run", container["name"]]
        assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "http"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
        assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert len(images) == 1


def test_a_pod_gets_longer_than_its_process_needs(manifests: Manifests) -> None:
    for document in kind(manifests, "StatefulSet"):
        pod = document["spec"]["template"]["spec"]
        drain = next(e["value"] for e in pod["containers"][0]["env"] if e["name"] == "TURNGATE_DRAIN_SECONDS")
        assert pod["terminationGracePeriodSeconds"] > float(drain)


def test_selectors_find_exactly_their_role(manifests: Manifests) -> None:
    labels = {
        document["metadata"]["name"]: document["spec"]["template"]["metadata"]["labels"]
        for document in kind(manifests, "StatefulSet")
    }
    selectors = [
        (document["metadata"]["labels"]["app.kubernetes.io/component"], document["spec"]["selector"])
        for document in [*kind(manifests, "Service"), *kind(manifests, "PodDisruptionBudget")]
    ]
    for role, selector in selectors:
        wanted = selector.get("matchLabels", selector)
        matched = [name for name, found in labels.items() if wanted.items() <= found.items()]
        assert matched == [f"turngate-{role}"]


def test_budget_for_every_role(manifests: Manifests, case: Path) -> None:
    enabled = (yaml.safe_load(case.read_text()).get("podDisruptionBudget") or {}).get("enabled", True)
    assert len(kind(manifests, "PodDisruptionBudget")) == (len(kind(manifests, "StatefulSet")) if enabled else 0)


def test_variables_are_settings_that_exist(manifests: Manifests) -> None:
    for role, found in variables(manifests).items():
        assert set(found) - KNOWN == set(), role


def test_processes_accept_their_variables(
    manifests: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = tmp_path / "endpoints.json"
    maps = {document["metadata"]["name"]: document["data"] for document in kind(manifests, "ConfigMap")}
    endpoints.write_text(maps["turngate-endpoints"]["endpoints.json"])
    for role, found in variables(manifests).items():
        with monkeypatch.context() as environment:
            for name, value in {**found, "TURNGATE_ENDPOINTS": f"@{endpoints}"}.items():
                environment.setenv(name, value)
            settings = Settings()
        assert settings.http_port == 8080, role
        assert len(settings.endpoints) == len(json.loads(endpoints.read_text()))


def test_passwords_are_files_and_nothing_else(manifests: Manifests) -> None:
    for found in variables(manifests).values():
        named = {name for name in found if "PASSWORD" in name or "SECRET" in name}
        assert all(name.endswith("_FILE") and found[name].startswith("/etc/turngate/") for name in named)
    assert kind(manifests, "Secret") == []


def test_files_named_by_variables_are_mounted(manifests: Manifests) -> None:
    by_role = variables(manifests)
    for document in kind(manifests, "StatefulSet"):
        role = document["metadata"]["labels"]["app.kubernetes.io/component"]
        mounts = [mount["mountPath"] for mount in document["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]]
        paths = [value.lstrip("@") for value in by_role[role].values() if "/etc/turngate/" in value]
        assert [path for path in paths if not any(path.startswith(f"{mount}/") for mount in mounts)] == []


def test_topology_job_runs_first_and_needs_nothing_of_the_chart(manifests: Manifests, case: Path) -> None:
    jobs = kind(manifests, "Job")
    wanted = (yaml.safe_load(case.read_text()).get("topology") or {}).get("apply", True)
    assert len(jobs) == int(wanted)
    for job in jobs:
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        pod = job["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"] == ["topology", "apply"]
        # A hook runs before every other object of the chart exists.
        assert "serviceAccountName" not in pod
        assert "envFrom" not in pod["containers"][0]
        assert [volume for volume in pod["volumes"] if "configMap" in volume] == []


def test_changed_settings_restart_the_pods(tools: ModuleType, case: Path) -> None:
    def checksum(*extra: str) -> str:
        done = tools.render_chart("-f", case, *extra)
        assert done.returncode == 0, done.stderr
        rendered = [document for document in yaml.safe_load_all(done.stdout) if document]
        return kind(rendered, "StatefulSet")[0]["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]

    assert checksum() == checksum()
    assert checksum() != checksum("--set", "settings.TURNGATE_LEASE_MS=15000")


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("kafka.bootstrap=kafka", "/kafka/bootstrap"),
        ("redis.url=redis://user:word@redis:6379/0", "/redis/url"),
        ("partitions=12", "/partitions"),
        ("environment=staging,tenants={*}", "/tenants"),
        ("settings.TURNGATE_KAFKA_PASSWORD=x", "invalid propertyName"),
        ("kafka.securityProtocol=SASL_SSL", "/kafka"),
        ("redis.passwordKey=password", "/redis"),
        ("roles.validators.replicas=1", "/roles"),
        ("image.digest=sha256:12", "/image/digest"),
    ],
)
def test_schema_refuses(tools: ModuleType, setting: str, complaint: str) -> None:
    dev = ROOT / "helm/turngate/ci/dev-values.yaml"
    done = tools.render_chart("-f", dev, "--set", setting)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_empty_values_say_what_is_missing(tools: ModuleType) -> None:
    done = tools.render_chart()
    assert done.returncode != 0
    assert all(path in done.stderr for path in ("/kafka/bootstrap", "/redis/url", "/tenants", "/edgeTokensSecret"))


def test_every_value_is_in_the_schema() -> None:
    schema = json.loads((ROOT / "helm/turngate/values.schema.json").read_text())

    def unknown(values: dict[str, Any], level: dict[str, Any], path: str) -> list[str]:
        found = []
        for name, value in values.items():
            inner = level.get("properties", {}).get(name)
            if inner is None and level.get("additionalProperties", True) is False:
                found.append(f"{path}/{name}")
            elif isinstance(value, dict) and inner is not None:
                found += unknown(value, inner, f"{path}/{name}")
        return found

    assert unknown(VALUES, schema, "") == []
    assert set(VALUES) == set(schema["properties"]) - {"global"}
