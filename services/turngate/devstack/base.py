"""What a development stack is, embedded or external: one Kafka broker and one Redis server."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Literal, Self

ServerName = Literal["kafka", "redis"]


class Stack(ABC):
    """A broker and a Redis server for development and tests.

    Every operation exists twice: `*_sync` blocks, the other is awaited and runs it in a thread. All of them
    may raise `StackError` (a server did not start, answer or stop).
    """

    @property
    @abstractmethod
    def kafka_bootstrap(self) -> str:
        """`host:port` of the broker; the same through all restarts."""

    @property
    @abstractmethod
    def redis_url(self) -> str:
        """`redis://host:port/0`; the same through all restarts."""

    @property
    @abstractmethod
    def kafka_product(self) -> str:
        """Broker and version, e.g. `noida-db 0.2.3` or `Apache Kafka 4.4.0`."""

    @property
    @abstractmethod
    def redis_product(self) -> str:
        """Redis server and version, e.g. `valkey 9.1.2`."""

    @property
    @abstractmethod
    def keeps_kafka_on_kill(self) -> bool:
        """Whether acknowledged Kafka records survive a SIGKILL of the broker."""

    @abstractmethod
    def start_sync(self) -> None:
        """Start what is not running and wait until both servers answer. Starting twice does nothing."""

    @abstractmethod
    def stop_sync(self) -> None:
        """Stop both servers, ports free afterwards. Stopping twice does nothing."""

    @abstractmethod
    def stop_server_sync(self, server: ServerName, *, graceful: bool = True, keep_data: bool = True) -> None:
        """Stop one server (SIGKILL unless `graceful`), delete its data unless `keep_data`."""

    @abstractmethod
    def start_server_sync(self, server: ServerName) -> None:
        """Start one server again on its port and wait until it answers."""

    def restart_redis_sync(self, graceful: bool, keep_data: bool = True) -> None:
        """Stop and start Redis. Its replication id is new afterwards; its data are the old ones if
        `keep_data`.
        """
        self.stop_server_sync("redis", graceful=graceful, keep_data=keep_data)
        self.start_server_sync("redis")

    def restart_kafka_sync(self, graceful: bool = True, keep_data: bool = True) -> None:
        """Stop and start the broker. With `graceful=False` see `keeps_kafka_on_kill`."""
        self.stop_server_sync("kafka", graceful=graceful, keep_data=keep_data)
        self.start_server_sync("kafka")

    async def start(self) -> None:
        await asyncio.to_thread(self.start_sync)

    async def stop(self) -> None:
        await asyncio.to_thread(self.stop_sync)

    async def stop_server(self, server: ServerName, *, graceful: bool = True, keep_data: bool = True) -> None:
        await asyncio.to_thread(self.stop_server_sync, server, graceful=graceful, keep_data=keep_data)

    async def start_server(self, server: ServerName) -> None:
        await asyncio.to_thread(self.start_server_sync, server)

    async def restart_redis(self, graceful: bool, keep_data: bool = True) -> None:
        await asyncio.to_thread(self.restart_redis_sync, graceful, keep_data)

    async def restart_kafka(self, graceful: bool = True, keep_data: bool = True) -> None:
        await asyncio.to_thread(self.restart_kafka_sync, graceful, keep_data)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await asyncio.shield(self.stop())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self.start_sync()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_sync()
