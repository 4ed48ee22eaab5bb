"""What the declared topology demands of a broker, and what `check` says where it does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turngate.topology.desired import (
    OPEN_MS_MAX,
    TopicState,
    batch_bytes_max,
    findings,
    group_inputs,
    replication_factor,
    retention_needed_ms,
    topic_configs,
)
from turngate.topology.groups import ROLES
from turngate.topology.topics import FOREVER, KIB, TOPICS

PREFIX = "turngate"


def as_declared(environment: str, partitions: int = 4) -> dict[str, TopicState]:
    return {
        spec.full_name(PREFIX): TopicState(
            name=spec.full_name(PREFIX),
            partitions=partitions,
            replication=replication_factor(environment),
            configs=topic_configs(spec, environment),
        )
        for spec in TOPICS.values()
    }


def changed(states: dict[str, TopicState], topic: str, **configs: str) -> dict[str, TopicState]:
    state = states[f"{PREFIX}.{topic}.v1"]
    assert state.configs is not None
    return states | {state.name: replace(state, configs={**state.configs, **configs})}


def codes(states: dict[str, TopicState], environment: str = "prod") -> list[tuple[str, str]]:
    found = findings(states, {}, prefix=PREFIX, partitions=4, environment=environment)
    return [(finding.code, finding.severity) for finding in found]


def test_only_changelogs_close_their_segments_early() -> None:
    """They are read back whole, and an open segment is neither compacted nor deleted from."""
    closing = {spec.name for spec in TOPICS.values() if "segment.ms" in topic_configs(spec, "prod")}
    assert closing == {name for role in ROLES.values() for name in role.tables}


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_declared_topology_has_no_findings(environment: str) -> None:
    assert codes(as_declared(environment), environment) == []


def test_outside_dev_the_durability_rules_of_one_broker_fail() -> None:
    found = codes(as_declared("dev"))
    assert found.count(("low_replication", "error")) == len(TOPICS)
    assert found.count(("low_min_insync", "error")) == len(TOPICS)


def test_every_declared_retention_outlasts_the_work_that_rests_on_it() -> None:
    for spec in TOPICS.values():
        needed = retention_needed_ms(spec.name, OPEN_MS_MAX)
        assert needed is None or spec.retention_ms == FOREVER or spec.retention_ms > needed


def test_every_topic_leaves_room_for_headers_and_for_batches() -> None:
    for spec in TOPICS.values():
        assert batch_bytes_max(spec) >= max(spec.bytes_max, 1024 * KIB) + 64 * KIB


@pytest.mark.parametrize(
    ("topic", "configs", "expected"),
    [
        ("turn-requests", {"retention.ms": str(OPEN_MS_MAX)}, ("short_retention", "error")),
        ("turn-requests", {"retention.ms": str(OPEN_MS_MAX + 1)}, ("other_retention", "note")),
        ("stream-events", {"retention.ms": "3600000"}, ("short_retention", "error")),
        ("trace", {"retention.ms": "1000"}, ("other_retention", "note")),
        ("turns", {"unclean.leader.election.enable": "true"}, ("unclean_election", "error")),
        ("turns", {"min.insync.replicas": "1"}, ("low_min_insync", "error")),
        ("turns", {"min.insync.replicas": "many"}, ("low_min_insync", "error")),
        ("turns", {"cleanup.policy": "compact"}, ("wrong_cleanup", "error")),
        ("turns", {"max.message.bytes": "1048588"}, ("low_byte_limit", "error")),
        ("turns", {"message.timestamp.type": "CreateTime"}, ("writer_clock", "error")),
        ("turns", {"retention.bytes": "1000000"}, ("deletion_by_size", "error")),
    ],
)
def test_one_wrong_config_is_one_finding(topic: str, configs: dict[str, str], expected: tuple[str, str]) -> None:
    assert codes(changed(as_declared("prod"), topic, **configs)) == [expected]


def test_missing_topics_wrong_counts_and_unreadable_configs_are_found() -> None:
    states = as_declared("prod")
    del states["turngate.trace.v1"]
    states["turngate.turns.v1"] = replace(states["turngate.turns.v1"], partitions=8)
    states["turngate.toolsets.v1"] = replace(states["turngate.toolsets.v1"], partitions=8)
    states["turngate.dead-letters.v1"] = replace(states["turngate.dead-letters.v1"], partitions=8)
    states["turngate.control.v1"] = replace(states["turngate.control.v1"], configs=None)
    assert sorted(codes(states)) == [
        ("missing_topic", "error"),
        ("unreadable_configs", "error"),
        ("wrong_partitions", "error"),
        ("wrong_partitions", "error"),
        ("wrong_partitions", "note"),
    ]


def test_a_missing_offset_names_group_topic_partitions_and_the_way_out() -> None:
    group = ROLES["ledger"].group(PREFIX)
    missing = frozenset((f"{PREFIX}.turns.v1", number) for number in (0, 1, 3))
    (finding,) = findings(as_declared("dev"), {group: missing}, prefix=PREFIX, partitions=4, environment="dev")
    assert (finding.code, finding.subject) == ("missing_offset", group)
    assert "turngate.turns.v1, partitions 0-1,3" in finding.message
    assert "--adopt-earliest" in finding.message


def test_group_inputs_are_full_names() -> None:
    assert group_inputs(ROLES["dispatcher"], "acme") == ("acme.sequences.v1",)
