"""Creates the topics and the first offsets on a broker, and compares a broker with the declared topology.

Nothing here shrinks, deletes or grows a topic, and no offset that is committed is ever moved. Two runs at
once are safe: the loser of a race finds what the winner made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turngate.topology.broker import (
    admin_client,
    create_topics,
    declared,
    settled_topics,
    topic_shapes,
    with_configs,
)
from turngate.topology.client import ClientOptions
from turngate.topology.desired import (
    OPEN_MS_MAX,
    Partition,
    TopicState,
    TopologyFinding,
    findings,
    group_inputs,
    missing_offset_findings,
    partition_findings,
)
from turngate.topology.groups import ROLES
from turngate.topology.keys import check_partitions
from turngate.topology.offsets import (
    FirstOffset,
    commit_first_offsets,
    missing_offsets,
    partitions_of,
    uncommitted_of,
)
from turngate.topology.topics import TOPICS

__all__ = ["ApplyReport", "FirstOffset", "apply_topology", "check_topology", "plan_topology"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """What `apply` did (or, from `plan_topology`, would do).

    created / existing: full topic names. committed: first offsets set now. problems: what only an operator
    can mend.
    notes: where a broker did not support something and what was done instead.
    """

    created: tuple[str, ...]
    existing: tuple[str, ...]
    committed: tuple[FirstOffset, ...]
    problems: tuple[TopologyFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(problem.severity == "error" for problem in self.problems)


async def apply_topology(
    bootstrap: str,
    *,
    prefix: str,
    partitions: int,
    environment: str,
    adopt_earliest: bool = False,
    options: ClientOptions | None = None,
) -> ApplyReport:
    """Create what is missing and commit every role group's missing first offsets.

    A first offset is the beginning of the partition, and it is set only where that cannot skip or repeat
    anything: the partition is new or was never written to. Elsewhere it is reported, or, with
    `adopt_earliest`, set.

    Raises ConfigurationError (the broker refuses what the environment demands) or Retryable (broker not
    ready).
    """
    check_partitions(partitions)
    options = options or {}
    async with admin_client(bootstrap, options) as admin:
        before = await topic_shapes(admin)
        missing = tuple(spec for spec in TOPICS.values() if spec.full_name(prefix) not in before)
        created, notes = await create_topics(admin, missing, prefix, partitions, environment)
        states = await settled_topics(admin, prefix)
        committed, uncommitted = await commit_first_offsets(
            admin, bootstrap, options, states, prefix=prefix, fresh=frozenset(created), adopt=adopt_earliest
        )
    return ApplyReport(
        created=created,
        existing=tuple(sorted(name for name in states if name not in created)),
        committed=committed,
        problems=(*_partition_problems(states, prefix, partitions), *missing_offset_findings(uncommitted)),
        notes=notes,
    )


async def plan_topology(
    bootstrap: str, *, prefix: str, partitions: int, options: ClientOptions | None = None
) -> ApplyReport:
    """What `apply_topology` would do, changing nothing; `committed` holds offsets of topics that exist."""
    check_partitions(partitions)
    options = options or {}
    async with admin_client(bootstrap, options) as admin:
        states = declared(await topic_shapes(admin), prefix)
        todo, uncommitted = await missing_offsets(admin, bootstrap, options, states, prefix)
    return ApplyReport(
        created=tuple(spec.full_name(prefix) for spec in TOPICS.values() if spec.full_name(prefix) not in states),
        existing=tuple(sorted(states)),
        committed=todo,
        problems=(*_partition_problems(states, prefix, partitions), *missing_offset_findings(uncommitted)),
    )


async def check_topology(
    bootstrap: str,
    *,
    prefix: str,
    partitions: int,
    environment: str,
    open_ms_max: int = OPEN_MS_MAX,
    options: ClientOptions | None = None,
) -> tuple[TopologyFinding, ...]:
    """Compare the broker with the declared topology and the rules of DESIGN §4; changes nothing."""
    check_partitions(partitions)
    async with admin_client(bootstrap, options or {}) as admin:
        states = await with_configs(admin, declared(await topic_shapes(admin), prefix))
        uncommitted: dict[str, frozenset[Partition]] = {}
        for role in ROLES.values():
            inputs = partitions_of(group_inputs(role, prefix), states)
            absent = await uncommitted_of(admin, role.group(prefix), inputs)
            if absent:
                uncommitted[role.group(prefix)] = absent
    return findings(
        states, uncommitted, prefix=prefix, partitions=partitions, environment=environment,
        open_ms_max=open_ms_max
    )  # fmt: skip


def _partition_problems(states: Mapping[str, TopicState], prefix: str, partitions: int) -> tuple[TopologyFinding, ...]:
    return tuple(
        problem
        for spec in TOPICS.values()
        if (state := states.get(spec.full_name(prefix))) is not None
        for problem in partition_findings(spec, state, partitions)
    )
