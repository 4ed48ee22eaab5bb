"""The floor: a bare aiokafka loop that consumes frames, parses them with orjson and forwards them in transactions.

python -m benchmarks.sides.bare BOOTSTRAP TOPIC OUTPUT GROUP [events]
With `events` the raw provider events inside each frame are parsed too.
"""

from __future__ import annotations

import asyncio
import sys

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

BATCH_RECORDS = 500
MIB = 1024 * 1024


async def forward(bootstrap: str, topic: str, output: str, group: str, *, parse_events: bool) -> None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        max_partition_fetch_bytes=16 * MIB,
    )  # fmt: skip
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{group}.0", max_batch_size=MIB, max_request_size=4 * MIB
    )
    await consumer.start()
    await producer.start()
    loads = orjson.loads
    while True:
        fetched = await consumer.getmany(timeout_ms=200, max_records=BATCH_RECORDS)
        for place, records in fetched.items():
            await producer.begin_transaction()
            sent = []
            for record in records:
                frame = loads(record.value)
                if parse_events:
                    for event in frame.get("events", ()):
                        loads(event)
                sent.append(await producer.send(output, record.value, record.key, partition=0))
            await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, group)
            await asyncio.gather(*sent)
            await producer.commit_transaction()


if __name__ == "__main__":
    asyncio.run(forward(*sys.argv[1:5], parse_events="events" in sys.argv[5:]))
