"""Faust on our consumer: isolation, credentials and static membership as in every role, and offsets that move on.

This is the one seam to Faust's driver. Faust reads committed records only under its own transactions, which the
observer does not use, so the consumer it works with is built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faust
from faust.auth import SASLCredentials, SSLCredentials
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

from turngate.runtime.consumer import group_consumer
from turngate.runtime.settings import Settings
from turngate.topology.groups import ROLES
from turngate.topology.reading import read_steadily

ROLE = ROLES["observer"]


class ObserverApp(faust.App):  # type: ignore[misc]  # Faust is not followed by mypy
    """A Faust app with our transport. It has no command line, web server or signal handling of its own."""

    observer_settings: Settings

    def _new_transport(self) -> Any:
        return _Transport(self.conf.broker_consumer, self)


def new_app(settings: Settings, folder: Path) -> ObserverApp:
    """An app that is not started. Raises ConfigurationError where a credential's file cannot be used.

    folder: where Faust makes its own folders, though its tables are in memory; else that is the working directory.
    """
    app = ObserverApp(
        ROLE.group(settings.topic_prefix),
        broker=[f"aiokafka://{address.strip()}" for address in settings.kafka.split(",")],
        broker_credentials=_credentials(settings),
        broker_client_id=f"turngate-{settings.instance_id}",
        broker_request_timeout=settings.request_timeout_ms / 1000,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_rebalance_timeout=settings.rebalance_timeout_ms / 1000,
        # Part of what a static member finds again in its group: it must not change with a restart.
        canonical_url=f"http://{settings.instance_id}",
        store="memory://",
        datadir=folder,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        autodiscover=False,
    )
    app.observer_settings = settings
    return app


def _credentials(settings: Settings) -> Any:
    """What Faust's producer takes for our settings; plaintext without any."""
    options = settings.kafka_client_options()
    context = options.get("ssl_context")
    if "sasl_mechanism" in options:
        return SASLCredentials(
            username=options.get("sasl_plain_username"),
            password=options.get("sasl_plain_password"),
            mechanism=options["sasl_mechanism"],
            ssl_context=context,
        )
    return SSLCredentials(context) if context is not None else None


class _Thread(AIOKafkaConsumerThread):  # type: ignore[misc]
    async def on_start(self) -> None:
        await super().on_start()
        read_steadily(self._consumer)

    def _create_worker_consumer(self, transport: Any) -> Any:
        settings: Settings = self.app.observer_settings  # type: ignore[attr-defined,unused-ignore]
        self._assignor = self.app.assignor
        # Of `turns` the offsets are checked before; the changelog has none and is read from its beginning.
        return group_consumer(
            settings,
            ROLE.group(settings.topic_prefix),
            ROLE.isolation,
            assignor=self._assignor,
            offset_reset="earliest",
        )


class _Consumer(Consumer):  # type: ignore[misc]
    """Commits behind the last record that was counted.

    Faust waits for every offset in between, and remembers gaps to know which will never come. It forgets a gap behind
    offset 0, and then commits nothing more: markers and aborted records make such gaps all the time. One agent takes
    the records of a partition one after the other, so the last of them is enough.
    """

    def _new_consumer_thread(self) -> Any:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    def _new_offset(self, tp: Any) -> int | None:
        acked: list[int] = self._acked[tp]
        if not acked:
            return None
        behind = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return behind

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Nothing to remember."""


class _Transport(Transport):  # type: ignore[misc]
    Consumer = _Consumer


def header_pairs(headers: Any) -> tuple[tuple[str, bytes], ...]:
    """A record's headers as the runtime has them; Faust hands on what the client gave."""
    pairs: Sequence[tuple[str, bytes]] = list(headers.items()) if hasattr(headers, "items") else (headers or ())
    return tuple((str(name), bytes(value or b"")) for name, value in pairs)
