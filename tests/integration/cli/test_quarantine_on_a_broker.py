"""`turngate quarantine` against a broker: what the reassembler's own quarantine writes is listed, shown and judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from turngate.devstack.base import Stack
from turngate.reassembler.frames import AttemptRef
from turngate.reassembler.quarantine import FrameQuarantine
from turngate.runtime.metrics import Metrics
from turngate.runtime.records import InputRecord
from turngate.schemas.codec import encode
from turngate.schemas.stream import EventsFrame
from turngate.topology.keys import partition_of
from turngate.topology.provision import apply_topology
from turngate.topology.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]
PARTITIONS = 2
KEY = b"acme/c1"
SECRET = "Zanzibar"


def frame(seq: int, content: str, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return encode(
        EventsFrame(
            tenant="acme", conversation="c1", operation_id="op-1", generation=2, relay=1, profile="openai",
            first_seq=seq, events=(json.dumps({"id": "r1", "choices": [choice]}),),
        )
    )  # fmt: skip


async def fill(bootstrap: str, prefix: str) -> None:
    """Two late frames, and one more in a transaction that was aborted."""
    await apply_topology(bootstrap, prefix=prefix, partitions=PARTITIONS, environment="dev")
    quarantine = FrameQuarantine(Metrics())
    name = TOPICS["quarantine"].full_name(prefix)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{prefix}-q") as producer:
        for commit, values in (
            (True, [frame(0, SECRET, None), frame(1, "!", "stop")]),
            (False, [frame(9, "no", None)]),
        ):
            await producer.begin_transaction()
            for offset, value in enumerate(values):
                record = InputRecord(
                    topic="stream-events", partition=1, offset=offset, timestamp_ms=5, key=KEY, value=value, headers=()
                )
                reason = "late_relay" if commit else "never_committed"
                for out in quarantine.put(record, AttemptRef("op-1", 2, 1), reason):
                    await producer.send_and_wait(
                        name, out.value, key=out.key, headers=list(out.headers), partition=partition_of(KEY, PARTITIONS)
                    )
            await (producer.commit_transaction() if commit else producer.abort_transaction())


def run(stack: Stack, prefix: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TURNGATE_KAFKA": stack.kafka_bootstrap,
        "TURNGATE_TOPIC_PREFIX": prefix,
        "TURNGATE_REDIS": "",
    }
    return subprocess.run(
        [sys.executable, "-m", "turngate.cli.main", "quarantine", *words],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


async def test_what_is_set_aside_is_listed_shown_and_judged_again(stack: Stack) -> None:
    prefix = f"q{uuid4().hex[:8]}"
    await fill(stack.kafka_bootstrap, prefix)

    listed = run(stack, prefix, "list", "--report", "json")
    assert listed.returncode == 0, listed.stderr
    (row,) = map(json.loads, listed.stdout.splitlines())
    assert (row["reason"], row["operation"], row["generation"], row["records"]) == ("late_relay", "op-1", 2, 2)

    shown = run(stack, prefix, "show", row["id"])
    assert shown.returncode == 0, shown.stderr
    assert "stream-events 1:0" in shown.stdout
    assert SECRET not in shown.stdout + shown.stderr
    raw = run(stack, prefix, "show", row["id"], "--raw")
    assert SECRET in raw.stdout
    assert "quarantine_shown_raw" in raw.stderr

    judged = run(stack, prefix, "replay", row["id"], "--report", "json")
    assert judged.returncode == 2, judged.stderr
    assert json.loads(judged.stdout)["status"] == "not_applicable"

    again = run(stack, prefix, "list", "--report", "json")
    assert again.stdout == listed.stdout
