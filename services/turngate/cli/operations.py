"""What operator commands read of Redis and send to Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka import AIOKafkaProducer
from redis.asyncio import Redis

from turngate.runtime.redis.keys import OPS, TIMERS, bucket_keys
from turngate.runtime.settings import Settings
from turngate.schemas.codec import decode_model, encode
from turngate.schemas.control import Control
from turngate.schemas.envelope import conversation_key
from turngate.schemas.sequence import OperationSpec
from turngate.topology.keys import BUCKETS, partition_of
from turngate.topology.topics import TOPICS

FIELDS = ("st", "conv", "gen", "relay", "owner", "md", "unknown", "evidence", "spec")


@dataclass(frozen=True, slots=True)
class OpenOperation:
    """An operation whose attempt is UNKNOWN. held: why it does not go on by itself."""

    operation_id: str
    key: str
    state: str
    generation: int
    relay: int
    owner: str
    endpoint: str
    manifest_digest: str
    age_seconds: float
    held: str


async def find_unknown(settings: Settings) -> list[OpenOperation]:
    """All UNKNOWN attempts, from the timers of every bucket."""
    redis = Redis.from_url(settings.redis, **settings.redis_client_options())
    try:
        pipe = redis.pipeline(transaction=False)
        for bucket in range(BUCKETS):
            pipe.zrange(bucket_keys(settings.topic_prefix, bucket)[TIMERS], 0, -1)
        found: list[OpenOperation] = []
        seconds, micros = await redis.time()
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        for bucket, timers in enumerate(await pipe.execute()):
            for timer in timers:
                kind, _, operation = timer.decode().partition("|")
                if kind == "unknown":
                    ops = bucket_keys(settings.topic_prefix, bucket)[OPS]
                    values = await redis.hmget(ops, [f"{operation}|{name}" for name in FIELDS])
                    row = {
                        name: value if isinstance(value, bytes) else b""  # absent
                        for name, value in zip(FIELDS, values, strict=True)
                    }
                    found.append(_view(operation, row, now_ms))
        return found
    finally:
        await redis.aclose()


def _view(operation: str, row: dict[str, bytes], now_ms: int) -> OpenOperation:
    spec = decode_model(OperationSpec, row["spec"])
    since = int(row["unknown"] or now_ms)
    held = "being resolved" if row["evidence"] else "HELD: no evidence that the attempt is over"
    return OpenOperation(
        operation_id=operation,
        key=row["conv"].decode(),
        state=row["st"].decode(),
        generation=int(row["gen"] or 0),
        relay=int(row["relay"] or 0),
        owner=row["owner"].decode(),
        endpoint=spec.options.endpoint,
        manifest_digest=row["md"].decode(),
        age_seconds=max(0, now_ms - since) / 1000,
        held=held,
    )


async def send_control(settings: Settings, control: Control) -> None:
    """Produces one command, acknowledged."""
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.kafka, enable_idempotence=True, **settings.kafka_client_options()
    )
    await producer.start()
    try:
        key = conversation_key(control.tenant, control.conversation)
        await producer.send_and_wait(
            TOPICS["control"].full_name(settings.topic_prefix),
            encode(control),
            key=key,
            partition=partition_of(key, settings.partitions),
        )
    finally:
        await producer.stop()
