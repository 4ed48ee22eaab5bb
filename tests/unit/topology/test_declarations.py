"""Topics, groups and keys: the declarations agree with each other and with the stock partitioner."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as stock_murmur2
from hypothesis import given
from hypothesis import strategies as st

from turngate.schemas.registry import RECORDS
from turngate.topology.groups import CO_PARTITIONED, ROLES
from turngate.topology.keys import BUCKETS, bucket_of, buckets_of, check_partitions, murmur2, partition_of
from turngate.topology.topics import TOPICS

OUTSIDERS = {"platform", "executor", "operator"}
powers = st.integers(0, 10).map(lambda exponent: 2**exponent)


@given(st.binary(max_size=300))
def test_murmur2_equals_the_stock_client(data: bytes) -> None:
    assert murmur2(data) == stock_murmur2(data) & 0x7FFFFFFF


@given(st.binary(min_size=1, max_size=100), powers)
def test_partition_equals_the_stock_partitioner(key: bytes, partitions: int) -> None:
    every = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key, every, every)


@given(st.binary(max_size=100), powers)
def test_a_key_lies_in_a_bucket_of_its_partition(key: bytes, partitions: int) -> None:
    assert bucket_of(key) in buckets_of(partition_of(key, partitions), partitions)


@given(powers)
def test_buckets_are_divided_without_rest(partitions: int) -> None:
    owned = [bucket for number in range(partitions) for bucket in buckets_of(number, partitions)]
    assert sorted(owned) == list(range(BUCKETS))


@pytest.mark.parametrize("partitions", [-1, 0, 3, 12, 2048])
def test_only_powers_of_two_up_to_the_bucket_count(partitions: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        check_partitions(partitions)


def test_every_schema_is_declared_and_every_record_has_a_place() -> None:
    on_topics = {schema for spec in TOPICS.values() for schema in spec.schemas}
    assert on_topics <= set(RECORDS)
    assert set(RECORDS) - on_topics == {"MessageSequence.v1"}, "it travels inside SequenceCommand.v1"


def test_writers_and_readers_are_roles_or_known_outsiders() -> None:
    for spec in TOPICS.values():
        assert {*spec.writers, *spec.readers} <= set(ROLES) | OUTSIDERS, spec.name


def test_roles_read_declared_topics_that_name_them() -> None:
    for role in ROLES.values():
        for name in role.inputs:
            assert role.name in TOPICS[name].readers, (role.name, name)


def test_what_a_role_reads_and_what_is_keyed_by_conversation_has_one_partition_count() -> None:
    for role in ROLES.values():
        assert set(role.inputs) <= CO_PARTITIONED, role.name
    assert {spec.name for spec in TOPICS.values() if spec.keyed} <= CO_PARTITIONED


def test_changelogs_are_compacted_and_their_roles_own() -> None:
    """A role's table is read back from its changelog: partition p of it beside partition p of the inputs."""
    for role in ROLES.values():
        for name in role.tables:
            spec = TOPICS[name]
            assert (spec.writers, spec.readers) == ((role.name,), (role.name,)), name
            assert name in CO_PARTITIONED
            assert "compact" in spec.cleanup
    compacted = {spec.name for spec in TOPICS.values() if "compact" in spec.cleanup}
    assert compacted == {name for role in ROLES.values() for name in role.tables}


def test_every_input_but_toolsets_is_keyed_by_conversation() -> None:
    """A toolset belongs to no conversation and is stored by digest, so recovery may take it from any partition."""
    unkeyed = {(role.name, name) for role in ROLES.values() for name in role.inputs if not TOPICS[name].keyed}
    assert unkeyed == {("recovery", "toolsets")}


def test_transactional_ids_name_group_and_partition() -> None:
    assert ROLES["ledger"].transactional_id("turngate", 7) == "turngate.ledger.g1.7"
