"""What the topics should look like on a broker, and what is wrong with how they do: pure, no client in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from turngate.topology.groups import CO_PARTITIONED, ROLES, RoleSpec
from turngate.topology.topics import DAY_MS, FOREVER, HOUR_MS, KIB, MIB, TOPICS, TopicSpec

DEV = "dev"
"""The one environment in which a single broker is enough."""

HEADROOM_BYTES = 64 * KIB
"""Between a record's value limit and the broker's batch limit: key, headers and the batch's own overhead."""

BATCH_BYTES_MIN = MIB + HEADROOM_BYTES
"""No topic's batch limit lies below this: a producer joins small records to batches of up to 1 MiB."""

OPEN_MS_MAX = 3 * DAY_MS
"""Default of the longest time a piece of work may stay open: approval age plus hold."""

STREAM_OPEN_MS_MAX = HOUR_MS // 2
"""Longest time a stream may stay open (DESIGN §7); stream-events keeps more than twice that."""

STREAM_TOPIC = "stream-events"
OPEN_WORK_ROLES = ("validator", "dispatcher", "reassembler", "ledger", "recovery")
"""The roles whose unfinished work is rebuilt from their inputs."""

Partition = tuple[str, int]
"""(topic's full name, partition number)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic as the broker has it. replication: the lowest of its partitions. configs:
    None where unreadable.
    """

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFinding:
    """Something `topology check` has to say. Only severity `error` fails the check."""

    code: str
    subject: str
    message: str
    severity: Literal["error", "note"] = "error"


def replication_factor(environment: str) -> int:
    return 1 if environment == DEV else 3


def min_insync_replicas(environment: str) -> int:
    return 1 if environment == DEV else 2


def batch_bytes_max(spec: TopicSpec) -> int:
    """The broker's limit for one batch of this topic, in bytes."""
    return max(spec.bytes_max + HEADROOM_BYTES, BATCH_BYTES_MIN)


def topic_configs(spec: TopicSpec, environment: str) -> dict[str, str]:
    """The configs a topic is created with.

    The broker's clock stamps the records: retention and the age of a redelivery must not rest on a writer's
    clock. The broker compacts and deletes closed segments only, and by default keeps one open for a week: a
    changelog, which is read back whole, closes them every hour.
    """
    configs = {
        "cleanup.policy": spec.cleanup,
        "retention.ms": str(spec.retention_ms),
        "retention.bytes": "-1",
        "max.message.bytes": str(batch_bytes_max(spec)),
        "min.insync.replicas": str(min_insync_replicas(environment)),
        "message.timestamp.type": "LogAppendTime",
        "unclean.leader.election.enable": "false",
    }
    if spec.cleanup != "delete":
        configs["segment.ms"] = str(HOUR_MS)
    return configs


def group_inputs(role: RoleSpec, prefix: str) -> tuple[str, ...]:
    """Full names of all inputs of a role."""
    return tuple(TOPICS[name].full_name(prefix) for name in role.inputs)


def retention_needed_ms(name: str, open_ms_max: int) -> int | None:
    """Milliseconds a topic must keep more than, or None where no open work rests on it."""
    if name == STREAM_TOPIC:
        return 2 * STREAM_OPEN_MS_MAX
    if any(name in ROLES[role].inputs for role in OPEN_WORK_ROLES):
        return open_ms_max
    return None


def findings(
    topics: Mapping[str, TopicState],
    uncommitted: Mapping[str, frozenset[Partition]],
    *,
    prefix: str,
    partitions: int,
    environment: str,
    open_ms_max: int = OPEN_MS_MAX,
) -> tuple[TopologyFinding, ...]:
    """Everything that differs from the declared topology or breaks a rule of DESIGN §4.

    topics: by full name. uncommitted: per group, the input partitions without a committed offset.
    """
    found: list[TopologyFinding] = []
    for spec in TOPICS.values():
        name = spec.full_name(prefix)
        state = topics.get(name)
        if state is None:
            found.append(_finding("missing_topic", name, "does not exist; run `turngate topology apply`"))
            continue
        found.extend(_shape_findings(spec, state, partitions, environment))
        found.extend(_config_findings(spec, state, environment, open_ms_max))
    found.extend(missing_offset_findings(uncommitted))
    return tuple(found)


def missing_offset_findings(uncommitted: Mapping[str, frozenset[Partition]]) -> Iterator[TopologyFinding]:
    """One finding per group and topic whose first offsets are not committed."""
    for group, missing in sorted(uncommitted.items()):
        for topic in sorted({topic for topic, _ in missing}):
            numbers = sorted(number for name, number in missing if name == topic)
            yield _finding(
                "missing_offset",
                group,
                f"has no committed offset on {topic}, partitions {_short(numbers)}; the role stops there. "
                "Commit the right offsets from a backup, or run `turngate topology apply --adopt-earliest` "
                "to have the topic read again from its beginning",
            )


def partition_findings(spec: TopicSpec, state: TopicState, partitions: int) -> Iterator[TopologyFinding]:
    """The count differs from the wanted one; `apply` never changes it."""
    if state.partitions != partitions:
        bound = spec.name in CO_PARTITIONED
        how = "`turngate topology grow` raises it for all topics of the fleet at once" if bound else "raise it by hand"
        yield TopologyFinding(
            code="wrong_partitions",
            subject=state.name,
            message=f"has {state.partitions} partitions, wanted {partitions}; apply never changes it: {how}",
            severity="error" if bound else "note",
        )


def _shape_findings(spec: TopicSpec, state: TopicState, partitions: int, environment: str) -> Iterator[TopologyFinding]:
    yield from partition_findings(spec, state, partitions)
    wanted = replication_factor(environment)
    if state.replication < wanted:
        yield _finding("low_replication", state.name, f"replication is {state.replication}, needs {wanted}")


def _config_findings(
    spec: TopicSpec, state: TopicState, environment: str, open_ms_max: int
) -> Iterator[TopologyFinding]:
    configs = state.configs
    if configs is None:
        yield _finding("unreadable_configs", state.name, "the broker does not say its configs; grant DescribeConfigs")
        return
    wanted = topic_configs(spec, environment)
    if _number(configs, "min.insync.replicas") < min_insync_replicas(environment):
        yield _weak(state, configs, "low_min_insync", "min.insync.replicas", wanted)
    if environment != DEV and configs.get("unclean.leader.election.enable") != "false":
        yield _weak(state, configs, "unclean_election", "unclean.leader.election.enable", wanted)
    if configs.get("cleanup.policy") != spec.cleanup:
        yield _weak(state, configs, "wrong_cleanup", "cleanup.policy", wanted)
    if _number(configs, "max.message.bytes") < batch_bytes_max(spec):
        yield _weak(state, configs, "low_byte_limit", "max.message.bytes", wanted)
    if configs.get("message.timestamp.type") != "LogAppendTime":
        yield _weak(state, configs, "writer_clock", "message.timestamp.type", wanted)
    if configs.get("retention.bytes", "-1") != "-1":
        yield _weak(state, configs, "deletion_by_size", "retention.bytes", wanted)
    yield from _retention_findings(spec, state, _number(configs, "retention.ms"), open_ms_max)


def _retention_findings(
    spec: TopicSpec, state: TopicState, kept_ms: int, open_ms_max: int
) -> Iterator[TopologyFinding]:
    needed_ms = retention_needed_ms(spec.name, open_ms_max)
    if needed_ms is not None and kept_ms != FOREVER and kept_ms <= needed_ms:
        yield _finding(
            "short_retention", state.name,
            f"retention.ms is {kept_ms}, but open work rests on this topic for up to {needed_ms} ms",
        )  # fmt: skip
    elif kept_ms != spec.retention_ms:
        yield TopologyFinding(
            code="other_retention", subject=state.name, severity="note",
            message=f"retention.ms is {kept_ms}, declared is {spec.retention_ms}; apply leaves it as it is",
        )  # fmt: skip


def _weak(
    state: TopicState, configs: Mapping[str, str], code: str, key: str, wanted: Mapping[str, str]
) -> TopologyFinding:
    return _finding(code, state.name, f"{key} is {configs.get(key, 'unset')}, needs {wanted[key]}")


def _number(configs: Mapping[str, str], key: str) -> int:
    """A numeric config; one that is missing or no number counts as 0, which fails every lower bound."""
    try:
        return int(configs.get(key, "0"))
    except ValueError:
        return 0


def _finding(code: str, subject: str, message: str) -> TopologyFinding:
    return TopologyFinding(code=code, subject=subject, message=message)


def _short(numbers: Iterable[int]) -> str:
    """`0-3,7`: consecutive numbers joined."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
