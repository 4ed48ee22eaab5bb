"""A Faust agent that merges the same frames: a table holds each stream's answer so far, at `end` it is sent.

python -m benchmarks.sides.faust_agent BOOTSTRAP TOPIC OUTPUT GROUP [deltas]
At least once, Faust's default; the table in memory with its changelog on Kafka. With `deltas` the topic holds one event
a record, without frames, and a plain dict takes the place of the table.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import faust
import orjson

from benchmarks.sides.merge import merge

COMMIT_SECONDS = 0.5


def app_of(bootstrap: str, topic: str, output: str, group: str, mode: str = "frames") -> Any:
    app = faust.App(
        group, broker=f"kafka://{bootstrap}", store="memory://", web_enabled=False, autodiscover=False,
        broker_commit_interval=COMMIT_SECONDS, topic_partitions=1, topic_replication_factor=1,
        consumer_auto_offset_reset="earliest", topic_disable_leader=True,
    )  # fmt: skip
    frames = app.topic(topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    answers = app.topic(output, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    streams: Any = {} if mode == "deltas" else app.Table("streams", partitions=1)

    @app.agent(frames)  # type: ignore[untyped-decorator,unused-ignore]
    async def merged(records: Any) -> None:
        async for value in records:
            frame = orjson.loads(value)
            operation = frame["operationId"]
            if "events" in frame:
                streams[operation] = merge(streams.get(operation), frame)
            elif "cause" in frame:
                await answers.send(key=operation.encode(), value=orjson.dumps(streams.pop(operation, None)))

    return app


async def run(*arguments: str) -> None:
    app = app_of(*arguments)
    await app.start()
    await app.wait_until_stopped()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:6]))
