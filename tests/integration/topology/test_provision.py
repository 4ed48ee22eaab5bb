"""`topology plan|apply|check` against a broker."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import pytest
import typer
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from typer.testing import CliRunner

from turngate.cli.topology import register
from turngate.devstack.base import Stack
from turngate.schemas.errors import ConfigurationError, Retryable
from turngate.topology.groups import ROLES
from turngate.topology.provision import apply_topology, check_topology, plan_topology
from turngate.topology.topics import TOPICS

pytestmark = pytest.mark.kafka
PARTITIONS = 4
FIRST_OFFSETS = PARTITIONS * sum(len(role.inputs) for role in ROLES.values())


@pytest.fixture
def prefix() -> str:
    return f"p{uuid4().hex[:8]}"


async def committed(bootstrap: str, group: str, topic: str) -> list[int | None]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        return [await consumer.committed(TopicPartition(topic, number)) for number in range(PARTITIONS)]
    finally:
        await consumer.stop()


async def write(bootstrap: str, topic: str, partition: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"x", partition=partition)
    finally:
        await producer.stop()


async def test_apply_creates_everything_fast_and_repeats_as_nothing(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    began = time.monotonic()
    first = await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    seconds = time.monotonic() - began
    assert first.ok
    assert first.notes == ()
    assert set(first.created) == {spec.full_name(prefix) for spec in TOPICS.values()}
    assert len(first.committed) == FIRST_OFFSETS
    assert seconds < 2
    for role in ROLES.values():
        for name in role.inputs:
            got = await committed(at, role.group(prefix), TOPICS[name].full_name(prefix))
            assert got == [0] * PARTITIONS
    again = await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    assert (again.created, again.committed, again.problems) == ((), (), ())
    assert await check_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev") == ()


async def test_plan_changes_nothing(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    report = await plan_topology(at, prefix=prefix, partitions=PARTITIONS)
    assert len(report.created) == len(TOPICS)
    found = await check_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    assert {finding.code for finding in found} == {"missing_topic"}


async def test_several_at_once_agree(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    reports = await asyncio.gather(
        *(apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev") for _ in range(4))
    )
    assert all(report.ok for report in reports)
    assert sorted(name for report in reports for name in report.created) == sorted(
        spec.full_name(prefix) for spec in TOPICS.values()
    )
    assert await check_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev") == ()


async def test_offsets_of_written_topics_are_reported_and_adopted_only_on_demand(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    topic, group = TOPICS["turns"].full_name(prefix), ROLES["ledger"].group(prefix)
    admin = AIOKafkaAdminClient(bootstrap_servers=at)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await admin.close()
    await write(at, topic, 2)

    report = await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    assert not report.ok
    assert {(problem.code, problem.subject) for problem in report.problems} == {
        ("missing_offset", ROLES[role].group(prefix)) for role in ("ledger", "recovery", "observer")
    }
    assert await committed(at, group, topic) == [0, 0, None, 0]
    found = await check_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    assert "missing_offset" in {finding.code for finding in found}

    adopted = await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev", adopt_earliest=True)
    assert adopted.ok
    assert {(first.topic, first.partition, first.offset) for first in adopted.committed} == {(topic, 2, 0)}
    assert await committed(at, group, topic) == [0, 0, 0, 0]


async def test_a_running_group_is_never_thrown_back(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    topic, group = TOPICS["sequences"].full_name(prefix), ROLES["dispatcher"].group(prefix)
    admin = AIOKafkaAdminClient(bootstrap_servers=at)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await admin.close()
    member = AIOKafkaConsumer(topic, bootstrap_servers=at, group_id=group, enable_auto_commit=False)
    await member.start()
    try:
        while not member.assignment():
            await member.getmany(timeout_ms=50)
        report = await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev", adopt_earliest=True)
    finally:
        await member.stop()
    assert [problem.subject for problem in report.problems] == [group]
    assert not any(first.group == group for first in report.committed)


async def test_a_keyed_topic_of_another_size_is_reported_and_left_alone(stack: Stack, prefix: str) -> None:
    at = stack.kafka_bootstrap
    await apply_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev")
    report = await apply_topology(at, prefix=prefix, partitions=PARTITIONS * 2, environment="dev")
    assert not report.ok
    assert {problem.code for problem in report.problems} == {"wrong_partitions"}
    assert await check_topology(at, prefix=prefix, partitions=PARTITIONS, environment="dev") == ()


async def test_production_on_one_broker_is_refused_with_what_to_do(stack: Stack, prefix: str) -> None:
    with pytest.raises(ConfigurationError, match=r"replication 3 .*add brokers"):
        await apply_topology(stack.kafka_bootstrap, prefix=prefix, partitions=PARTITIONS, environment="prod")


async def test_no_broker_is_an_error_of_ours() -> None:
    with pytest.raises(Retryable, match="no broker answers"):
        await apply_topology("127.0.0.1:1", prefix="none", partitions=PARTITIONS, environment="dev")


def test_command_line(stack: Stack, prefix: str) -> None:
    app = typer.Typer()
    register(app)
    where = ["--kafka", stack.kafka_bootstrap, "--prefix", prefix, "--partitions", "4"]
    run = CliRunner(env={"TURNGATE_ENVIRONMENT": "dev"}).invoke

    plan = run(app, ["topology", "plan", *where])
    assert plan.exit_code == 0
    assert f"would create {prefix}.turns.v1" in plan.stdout
    before = run(app, ["topology", "check", *where])
    assert before.exit_code == 1
    assert "error missing_topic" in before.stdout
    applied = run(app, ["topology", "apply", *where])
    assert applied.exit_code == 0
    assert f"committed first offsets of {prefix}.ledger.g1 on {prefix}.control.v1 (4 partitions)" in applied.stdout
    assert run(app, ["topology", "check", *where]).stdout == "topology as declared\n"
    assert run(app, ["topology", "plan", *where]).stdout == "nothing to do\n"
    assert run(app, ["topology", "check", *where, "--environment", "production"]).exit_code == 1
    assert run(app, ["topology", "apply", *where[:-1], "6"]).exit_code == 64
    assert run(app, ["topology", "graph"]).stdout.startswith("flowchart LR\n")
