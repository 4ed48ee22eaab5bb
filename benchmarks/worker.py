"""One reassembler worker on Kafka, frames of 16 events, beside what else could do the work.

python -m benchmarks worker [ROUNDS]

Runs on TURNGATE_KAFKA and TURNGATE_REDIS, or fetches and starts Apache Kafka and redis-server itself. Each side is a
process of its own that reads the same frames, one side at a time, in turns: `turngate run reassembler` as an operator
runs it (consume, order, normalise, gate, CAS in Redis, previews and turns in transactions); a bare aiokafka loop that
parses the frames and forwards them in transactions; a Faust agent and a Quix Streams app that merge the same events;
and a Faust agent that is given the events one by one, as it would be by whoever does not frame them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from redis.asyncio import Redis

from benchmarks.operations import TENANT, interleaved, open_attempts
from benchmarks.rates import Rate, Side, measure
from benchmarks.streams import chat
from turngate.runtime.records import Output
from turngate.topology.groups import ROLES
from turngate.topology.provision import apply_topology
from turngate.topology.topics import MIB, TOPICS

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks" / "sides"
QUIX = ROOT / ".turngate" / "benchmark-quix"
STREAMS = 800
DELTAS = 1_000
OPEN_AT_ONCE = 100
ROUNDS = 5
LIMIT_SECONDS = 15.0
DELTA_STREAMS = 300
"""As many streams come a second time with one event a record, more than Faust reads in the time limit."""
DELTAS_TOPIC = "deltas"
INPUT = "stream-events"


def main(rounds: int = ROUNDS) -> int:
    if "TURNGATE_KAFKA" not in os.environ:
        again = [sys.executable, "-m", "benchmarks", "worker", str(rounds)]
        return subprocess.call([sys.executable, str(ROOT / "scripts" / "real_kafka.py"), "run", "--", *again], cwd=ROOT)
    install_quix()
    asyncio.run(compare(rounds))
    return 0


async def compare(rounds: int) -> None:
    """Fresh topics each round, every side once a round; prints the medians."""
    events = chat(DELTAS)
    rates: dict[str, list[Rate]] = defaultdict(list)
    print(f"{os.environ.get('TURNGATE_BROKER_NAME', 'broker')}, {STREAMS} streams of {len(events)} events, "
          f"{OPEN_AT_ONCE} open at a time, {rounds} rounds")  # fmt: skip
    for _ in range(rounds):
        prefix = f"bench{secrets.token_hex(4)}"
        total = await load(prefix, events)
        for side in sides(prefix):
            rates[side.name].append(await one(prefix, side, total, len(events)))
    table(rates)


async def load(prefix: str, events: list[str]) -> int:
    """Topics, open attempts and all of their frames; returns how many frames."""
    kafka = os.environ["TURNGATE_KAFKA"]
    await apply_topology(kafka, prefix=prefix, partitions=1, environment="dev")
    redis = Redis.from_url(os.environ["TURNGATE_REDIS"])
    attempts = await open_attempts(redis, prefix, STREAMS)
    await redis.aclose()
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics(
        [NewTopic(f"{prefix}.{name}", 1, 1) for name in ("forwarded", "faust", "quix", DELTAS_TOPIC)]
    )
    await admin.close()
    streams = [attempt.frames(events) for attempt in attempts]
    await produce_deltas(kafka, f"{prefix}.{DELTAS_TOPIC}", events)
    return await produce(kafka, prefix, interleaved(streams, OPEN_AT_ONCE))


async def produce_deltas(kafka: str, topic: str, events: list[str]) -> None:
    """One event a record, OPEN_AT_ONCE streams at a time in turns."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_batch_size=MIB, max_request_size=4 * MIB)
    await producer.start()
    for first in range(0, DELTA_STREAMS, OPEN_AT_ONCE):
        for event in events:
            for number in range(first, first + OPEN_AT_ONCE):
                frame = {"operationId": f"op-{number}", "events": [event]}
                await producer.send(topic, orjson.dumps(frame), b"%d" % number, partition=0)
    await producer.stop()


async def produce(kafka: str, prefix: str, outputs: object) -> int:
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_batch_size=MIB, max_request_size=4 * MIB)
    await producer.start()
    count = 0
    for out in outputs:  # type: ignore[attr-defined]
        assert isinstance(out, Output)
        name = TOPICS[out.topic].full_name(prefix)
        await producer.send(name, out.value, out.key, partition=0, headers=list(out.headers))
        count += 1
    await producer.stop()
    return count


def sides(prefix: str) -> list[Side]:
    kafka, topic = os.environ["TURNGATE_KAFKA"], TOPICS[INPUT].full_name(prefix)

    def python(name: str, module: str, *more: str, output: str) -> Side:
        group, deltas = f"{prefix}.{name.replace(' ', '-')}", DELTAS_TOPIC in more
        read = f"{prefix}.{DELTAS_TOPIC}" if deltas else topic
        argv = (sys.executable, "-m", module, kafka, read, f"{prefix}.{output}", group, *more)
        return Side(name, argv, {"PYTHONPATH": str(ROOT)}, group, deltas=deltas)

    environment = {
        "TURNGATE_TOPIC_PREFIX": prefix, "TURNGATE_PARTITIONS": "1", "TURNGATE_ENVIRONMENT": "dev",
        "TURNGATE_TENANTS": TENANT, "TURNGATE_INSTANCE_ID": "reassembler-0",
    }  # fmt: skip
    turngate = Path(sys.executable).with_name("turngate")
    role = Side(
        "turngate", (str(turngate), "run", "reassembler"), environment, ROLES["reassembler"].group(prefix), True
    )
    return [
        python("bare", "benchmarks.sides.bare", output="forwarded"),
        role,
        python("bare events", "benchmarks.sides.bare", "events", output="forwarded"),
        python("faust", "benchmarks.sides.faust_agent", output="faust"),
        python("faust unframed", "benchmarks.sides.faust_agent", DELTAS_TOPIC, output="faust"),
        Side("quix", (str(QUIX / "bin" / "python"), str(HERE / "quix_app.py"), kafka, topic, f"{prefix}.quix",
                      f"{prefix}.quix"), {}, f"{prefix}.quix"),
    ]  # fmt: skip


def install_quix() -> None:
    """Quix Streams in a venv of its own, from its hash-pinned lock: some of its pins differ from ours."""
    lock, done = HERE / "requirements-quix.lock", QUIX / "installed"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(QUIX)], check=True)
    pip = [str(QUIX / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)]
    subprocess.run(pip, check=True)
    done.write_bytes(lock.read_bytes())


async def one(prefix: str, side: Side, total: int, events: int) -> Rate:
    """total: frames on the topic. events: of a stream. The rate told is that of events."""
    admin = AIOKafkaAdminClient(bootstrap_servers=os.environ["TURNGATE_KAFKA"])
    await admin.start()
    name = f"{prefix}.{DELTAS_TOPIC}" if side.deltas else TOPICS[INPUT].full_name(prefix)
    records, per_record = (DELTA_STREAMS * events, 1.0) if side.deltas else (total, STREAMS * events / total)
    log = Path(tempfile.gettempdir()) / f"{prefix}-{side.name.replace(' ', '-')}.log"
    try:
        rate = await measure(admin, side, TopicPartition(name, 0), records, LIMIT_SECONDS, log)
    finally:
        await admin.close()
    log.unlink()
    return replace(rate, records=round(rate.records * per_record))


def table(rates: dict[str, list[Rate]]) -> None:
    """Medians over the rounds; each ratio is the median of the ratios within a round."""
    print(f"{'side':<17}{'events/s':>12}{'CPU us/event':>14}{'of bare':>10}{'per CPU s, of bare':>20}")
    for name, found in rates.items():
        speed = [rate.records / rate.seconds for rate in found]
        cpu = [rate.cpu_seconds / rate.records * 1e6 for rate in found]
        floor = [rate.records / rate.seconds for rate in rates["bare"]]
        floor_cpu = [rate.cpu_seconds / rate.records * 1e6 for rate in rates["bare"]]
        against = statistics.median(mine / other for mine, other in zip(speed, floor, strict=True))
        against_cpu = statistics.median(other / mine for mine, other in zip(cpu, floor_cpu, strict=True) if mine)
        print(f"{name:<17}{statistics.median(speed):>12,.0f}{statistics.median(cpu):>14.2f}"
              f"{against:>10.2f}{against_cpu:>20.2f}")  # fmt: skip
