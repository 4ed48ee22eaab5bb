"""The broker and Redis that tests run on, started only when a test asks for them."""

from __future__ import annotations

import itertools
import logging
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from turngate.devstack.base import Stack
from turngate.devstack.external import ExternalStack
from turngate.devstack.stack import embedded_products, open_stack
from turngate.schemas.errors import TurngateError

# What an external stack needs and what tests read themselves (TURNGATE_TEST_...). Any other TURNGATE_ variable of
# the developer's shell would change what is tested.
STACK_VARIABLES = (
    "TURNGATE_KAFKA",
    "TURNGATE_REDIS",
    "TURNGATE_STACK_CONTROL",
    "TURNGATE_BROKER_NAME",
)
# They start servers or whole fleets and wait for them: two at once would only slow each other.
WITH_STACK = ("tests/docs/", "tests/e2e/", "tests/integration/", "tests/simulation/")
_run = secrets.token_hex(3)
_counter = itertools.count(1)


# How fast inputs are made says how busy the machine is, not whether a property holds.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_configure() -> None:
    for name in [name for name in os.environ if name.startswith("TURNGATE_")]:
        if name not in STACK_VARIABLES and not name.startswith("TURNGATE_TEST_"):
            del os.environ[name]


def pytest_report_header() -> str:
    try:
        external = open_external()
        broker, redis = (
            (external.kafka_product, external.redis_product) if external is not None else embedded_products()
        )
    except TurngateError as error:
        return f"turngate stack: none ({error})"
    kind = "external" if external is not None else "embedded"
    return f"turngate stack ({kind}): {broker} / {redis}"


class OneStack(LoadScopeScheduling):
    """What shares a stack, or starts one of its own, runs in one process; of the others, a file does."""

    def _split_scope(self, nodeid: str) -> str:
        return "stack" if nodeid.startswith(WITH_STACK) else nodeid.split("::", 1)[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return OneStack(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `real` need what only a real broker does."""
    for item in items:
        assert item.nodeid.startswith(WITH_STACK) or not needs_stack(item), f"WITH_STACK lacks {item.nodeid}"
    if os.environ.get("TURNGATE_KAFKA"):
        return
    skip = pytest.mark.skip(reason="needs a real broker: scripts/real_kafka.py run -- pytest ...")
    for item in items:
        if item.get_closest_marker("real") is not None:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def logging_of_its_own() -> Iterator[None]:
    """What a test's command or role set up for logging writes to that test's own output, and ends with it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = [handler for handler in root.handlers if handler in handlers]
        root.setLevel(level)


def needs_stack(item: pytest.Item) -> bool:
    return not {"stack", "fresh_stack"}.isdisjoint(getattr(item, "fixturenames", ()))


def open_external() -> ExternalStack | None:
    if not os.environ.get("TURNGATE_KAFKA") and not os.environ.get("TURNGATE_REDIS"):
        return None
    stack = open_stack()
    assert isinstance(stack, ExternalStack), "both addresses are set"
    return stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The session's broker and Redis: embedded, or those that TURNGATE_KAFKA and TURNGATE_REDIS name."""
    data: Path = tmp_path_factory.mktemp("stack")
    with open_stack(data=data) as running:
        yield running


@pytest.fixture
def fresh_stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack for a test that restarts, kills or wipes servers: one of its own where embedded (half a second)."""
    with open_stack(data=tmp_path / "stack") as running:
        yield running


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, groups and transactional ids that no other test uses, e.g. `t3f9c1a.7.name.`."""
    return f"{_unique(request)}."


@pytest.fixture
def redis_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for Redis keys that no other test uses."""
    return f"{_unique(request)}:"


def _unique(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", str(request.node.name).lower()).strip("-")
    return f"t{_run}.{next(_counter)}.{name[:40]}"
