"""Topics on a real broker: read them, create them. Private plumbing of `provision`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from turngate.schemas.errors import ConfigurationError, Retryable
from turngate.topology.client import ClientOptions
from turngate.topology.desired import DEV, TopicState, replication_factor, topic_configs
from turngate.topology.topics import TOPICS, TopicSpec

PAUSE_S = 0.05
WAIT_S = 30.0
TOPIC_EXISTS = 36
INVALID_REPLICATION = 38
INVALID_CONFIG = 40


@asynccontextmanager
async def admin_client(bootstrap: str, options: ClientOptions) -> AsyncGenerator[AIOKafkaAdminClient, None]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **options)
    try:
        await admin.start()
    except KafkaError as error:
        await admin.close()
        raise Retryable(f"no broker answers at the configured address ({type(error).__name__})") from error
    try:
        yield admin
    finally:
        await admin.close()


async def topic_shapes(admin: AIOKafkaAdminClient) -> dict[str, TopicState]:
    """All topics of the cluster, without configs. Asked for without names:
    a named topic may be created by asking.
    """
    states: dict[str, TopicState] = {}
    for topic in await admin.describe_topics():
        ready = [part for part in topic["partitions"] if part["leader"] >= 0]
        states[topic["topic"]] = TopicState(
            name=topic["topic"],
            partitions=len(topic["partitions"]) if len(ready) == len(topic["partitions"]) else 0,
            replication=min((len(part["replicas"]) for part in ready), default=0),
            configs=None,
        )
    return states


def declared(states: Mapping[str, TopicState], prefix: str) -> dict[str, TopicState]:
    names = {spec.full_name(prefix) for spec in TOPICS.values()}
    return {name: state for name, state in states.items() if name in names}


async def settled_topics(admin: AIOKafkaAdminClient, prefix: str) -> dict[str, TopicState]:
    """Our topics once every one of them has all its leaders. Raises Retryable after 30 s."""
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                states = declared(await topic_shapes(admin), prefix)
                if len(states) == len(TOPICS) and all(state.partitions for state in states.values()):
                    return states
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Retryable("the created topics have no leaders yet; run apply again") from None


async def create_topics(
    admin: AIOKafkaAdminClient, missing: Iterable[TopicSpec], prefix: str, partitions: int, environment: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names created by this very call, and notes. A topic another run created meanwhile is not among them."""
    wanted = {spec.full_name(prefix): topic_configs(spec, environment) for spec in missing}
    answers = await _request(admin, wanted, partitions, environment)
    refused: dict[str, dict[str, str]] = {name: {} for name, (code, _) in answers.items() if code == INVALID_CONFIG}
    notes: tuple[str, ...] = ()
    if refused and environment == DEV:
        notes = tuple(
            f"{name}: created without configs, the broker refuses them ({answers[name][1]})" for name in refused
        )
        answers |= await _request(admin, refused, partitions, environment)
    for name, (code, text) in answers.items():
        if code == INVALID_REPLICATION:
            raise ConfigurationError(
                f"replication {replication_factor(environment)} of environment {environment!r} is beyond "
                f"this cluster; add brokers or set TURNGATE_ENVIRONMENT={DEV}"
            )
        if code not in (0, TOPIC_EXISTS):
            raise ConfigurationError(f"the broker refuses topic {name}: {for_code(code).__name__} {text}")
    return tuple(name for name, (code, _) in answers.items() if code == 0), notes


async def _request(
    admin: AIOKafkaAdminClient, wanted: Mapping[str, dict[str, str]], partitions: int, environment: str
) -> dict[str, tuple[int, str]]:
    """Error code and text per topic."""
    if not wanted:
        return {}
    response = await admin.create_topics(
        [
            NewTopic(name, partitions, replication_factor(environment), topic_configs=configs)
            for name, configs in wanted.items()
        ]
    )
    return {error[0]: (int(error[1]), str(error[2] or "")) for error in _field(response, "topic_errors")}


def _field(response: object, name: str) -> Iterable[Any]:
    """A field that aiokafka's versioned responses have and its types do not."""
    return cast(Iterable[Any], getattr(response, name))


async def with_configs(admin: AIOKafkaAdminClient, states: Mapping[str, TopicState]) -> dict[str, TopicState]:
    if not states:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in states]
    configs: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources):
        for code, _, _, name, entries in _field(response, "resources"):
            if code == 0:
                configs[name] = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
    return {
        name: TopicState(
            name=name, partitions=state.partitions, replication=state.replication, configs=configs.get(name)
        )
        for name, state in states.items()
    }
