"""What Faust is told of our settings, and which offsets it commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turngate.observer.service import Observer
from turngate.observer.transport import ROLE, header_pairs, new_app
from turngate.runtime.clock import ManualClock
from turngate.runtime.metrics import Metrics
from turngate.runtime.settings import Settings
from turngate.topology.topics import TOPICS

PLACE = ("turns", 0)
FOLDER = Path("/of/this/run")


def settings(**fields: Any) -> Settings:
    return Settings(kafka="a:1, b:2", redis="redis://c:3/0", instance_id="observer-0", **fields)


async def test_the_group_and_the_brokers_are_ours() -> None:
    conf = new_app(settings(topic_prefix="t"), FOLDER).conf
    assert conf.id == ROLE.group("t")
    assert [(url.host, url.port) for url in conf.broker] == [("a", 1), ("b", 2)]
    assert (conf.topic_allow_declare, conf.topic_disable_leader, conf.web_enabled) == (False, True, False)
    assert str(conf.store) == "memory:"
    assert {conf.datadir, conf.appdir.parent} == {FOLDER}, "nothing is left where the process was started"


@pytest.mark.parametrize(
    ("protocol", "wanted", "secure"),
    [
        ("PLAINTEXT", None, False),
        ("SSL", "SSL", True),
        ("SASL_PLAINTEXT", "SASL_PLAINTEXT", False),
        ("SASL_SSL", "SASL_SSL", True),
    ],
)
async def test_credentials_are_passed_on(protocol: str, wanted: str | None, secure: bool) -> None:
    own = settings(kafka_security_protocol=protocol, kafka_username="me", kafka_password="secret")
    found = new_app(own, FOLDER).conf.broker_credentials
    assert (found.protocol.value if found is not None else None) == wanted
    if protocol.startswith("SASL"):
        assert (found.username, found.password, found.mechanism.value) == ("me", "secret", "SCRAM-SHA-512")
        assert (found.ssl_context is not None) == secure
        assert "secret" not in repr(found)
    elif secure:
        assert found.context.check_hostname


async def test_offsets_are_committed_over_markers_and_aborted_records() -> None:
    """Faust's own rule stops for ever at the gap behind offset 0."""
    consumer: Any = new_app(settings(), FOLDER).consumer
    consumer._thread.thread_loop.close()  # made for a thread that is never started
    for acked, behind in (([0], 1), ([4], 5), ([], None), ([9, 8], 10)):
        consumer._acked[PLACE] = list(acked)
        consumer._acked_index[PLACE] = set(acked)
        assert consumer._new_offset(PLACE) == behind
        consumer._committed_offset[PLACE] = behind
    assert not consumer._acked_index[PLACE]


async def test_the_changelog_is_the_declared_topic() -> None:
    observer = Observer(settings(topic_prefix="t"), ManualClock(), Metrics(), FOLDER)
    assert observer.app.tables.changelog_topics == {TOPICS[name].full_name("t") for name in ROLE.tables}
    assert observer.app.tables["turns"].changelog_topic_name in observer.app.tables.changelog_topics
    assert not observer.ready


async def test_what_a_changelog_gave_expires_as_well() -> None:
    clock = ManualClock(wall_ms=7_200_000)
    observer = Observer(settings(), clock, Metrics(), FOLDER)
    table: Any = observer.app.tables["turns"]
    old, new = ((0, "acme"), (0.0, 59.9)), ((1, "acme"), (7_140.0, 7_199.9))
    table.data.data.update({old: [1, 1], new: [2, 2]})
    await observer._recovered()
    assert dict(table.data) == {new: [2, 2]}
    assert table._partition_timestamp_keys[(1, 7_199.9)] == {new}


def test_headers_are_pairs() -> None:
    assert header_pairs(None) == ()
    assert header_pairs([("a", b"1"), ("b", None)]) == header_pairs({"a": b"1", "b": b""}) == (("a", b"1"), ("b", b""))
