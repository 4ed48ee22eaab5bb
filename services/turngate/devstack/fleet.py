"""A whole fleet on one machine: topology, every role as its own process, a simulated provider, a tool executor."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from turngate.devstack.base import Stack
from turngate.devstack.ports import free_ports
from turngate.devstack.provider_sim.script import Script
from turngate.devstack.supervisor import ProcessSpec, RestartPolicy, Supervisor, role_argv
from turngate.topology.groups import ROLES
from turngate.topology.provision import apply_topology

COMMIT_PATH = ("recovery", "validator", "dispatcher", "reassembler", "ledger")
ALL_ROLES = (*COMMIT_PATH, "edge", "observer")
SIMULATOR = "provider-sim"
CREDENTIAL = "TURNGATE_SIM_KEY"


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    """A simulated endpoint: which API under which path prefix, and what the simulated provider declares."""

    name: str
    api: str
    close_ends_generation: bool = False
    profile: str = ""


DEFAULT_ENDPOINTS = (
    EndpointPlan("openai", "openai-chat", close_ends_generation=True, profile="openai"),
    EndpointPlan("anthropic", "anthropic", profile="anthropic"),
    EndpointPlan("compat", "openai-chat", profile="openai-compat"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """How a fleet is set up. folder: logs, script, receive log. env: further TURNGATE_* settings of all roles."""

    folder: Path
    prefix: str = "turngate"
    partitions: int = 4
    tenants: str = "demo"
    roles: Sequence[str] = ALL_ROLES
    endpoints: Sequence[EndpointPlan] = DEFAULT_ENDPOINTS
    script: Script = field(default_factory=Script)
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    restart: RestartPolicy | None = None


class DevFleet:
    """Runs the fleet on a stack; an async context manager. Processes are killed and restarted by name."""

    def __init__(self, stack: Stack, plan: FleetPlan) -> None:
        self.stack = stack
        self.plan = plan
        self.supervisor = Supervisor()
        ports = free_ports(len(plan.roles) + 1)
        self._ports = dict(zip((SIMULATOR, *plan.roles), ports, strict=True))
        self.receive_log = plan.folder / "receive-log.jsonl"

    async def __aenter__(self) -> Self:
        """Topology applied, simulator and roles ready. Raises what any of them complains of."""
        plan = self.plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        await apply_topology(
            self.stack.kafka_bootstrap, prefix=plan.prefix, partitions=plan.partitions, environment="dev"
        )
        (plan.folder / "endpoints.json").write_text(json.dumps(self._endpoints()))
        await self.supervisor.__aenter__()
        try:
            self.supervisor.start(self._simulator())
            if "recovery" in plan.roles:
                # It opens the buckets of an empty Redis and fences everybody for it: cheaper before they have begun.
                self.supervisor.start(self._role("recovery"))
                await self.supervisor.wait_ready("recovery")
            for role in plan.roles:
                if role != "recovery":
                    self.supervisor.start(self._role(role))
            await self.supervisor.wait_ready()
        except BaseException:
            await self.supervisor.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.__aexit__()

    def url(self, name: str) -> str:
        """The HTTP address of a role, or of the simulator (`provider-sim`)."""
        return f"http://127.0.0.1:{self._ports[name]}"

    def environment(self, instance: str) -> dict[str, str]:
        """The settings of one process, as an operator would give them."""
        plan = self.plan
        return {
            "TURNGATE_KAFKA": self.stack.kafka_bootstrap,
            "TURNGATE_REDIS": self.stack.redis_url,
            "TURNGATE_TOPIC_PREFIX": plan.prefix,
            "TURNGATE_PARTITIONS": str(plan.partitions),
            "TURNGATE_ENVIRONMENT": "dev",
            "TURNGATE_INSTANCE_ID": instance,
            # A killed process takes its place again at once; the embedded broker never notices a dead member.
            "TURNGATE_STATIC_MEMBERSHIP": "true",
            "TURNGATE_TENANTS": plan.tenants,
            "TURNGATE_ENDPOINTS": f"@{plan.folder / 'endpoints.json'}",
            CREDENTIAL: "sim-key",
            **plan.env,
        }

    def _endpoints(self) -> list[dict[str, object]]:
        return [
            {
                "name": endpoint.name,
                "api": endpoint.api,
                "profile": endpoint.profile or endpoint.api,
                "baseUrl": f"{self.url(SIMULATOR)}/{endpoint.name}",
                "credentialEnv": CREDENTIAL,
                "closeEndsGeneration": endpoint.close_ends_generation,
            }
            for endpoint in self.plan.endpoints
        ]

    def _simulator(self) -> ProcessSpec:
        folder = self.plan.folder
        (folder / "script.json").write_text(self.plan.script.model_dump_json(by_alias=True))
        port_file = folder / "provider-sim.port"
        port_file.unlink(missing_ok=True)
        argv = (
            sys.executable, "-m", "turngate.devstack.provider_sim", "--port", str(self._ports[SIMULATOR]),
            "--script", str(folder / "script.json"), "--receive-log", str(self.receive_log),
            "--port-file", str(port_file),
        )  # fmt: skip
        return ProcessSpec(SIMULATOR, argv, folder / f"{SIMULATOR}.log", ready=port_file.exists)

    def _role(self, role: str) -> ProcessSpec:
        assert role in ROLES, f"no role {role}"
        env = self.environment(f"{role}-0") | {"TURNGATE_HTTP_PORT": str(self._ports[role])}
        return ProcessSpec(
            role, role_argv(role), self.plan.folder / f"{role}.log", env,
            ready_url=f"{self.url(role)}/readyz", restart=self.plan.restart,
        )  # fmt: skip
