"""A Quix Streams application that merges the same frames: its state holds each stream's answer so far.

python quix_app.py BOOTSTRAP TOPIC OUTPUT GROUP, in a venv of its own (requirements-quix.lock beside this file, made by
`uv pip compile --universal --generate-hashes --python-version 3.11` from quixstreams>=3.28,<4)
Exactly once, the state in RocksDB with its changelog on Kafka.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from quixstreams import Application, State

from benchmarks.sides.merge import merge

COMMIT_SECONDS = 0.5


def merged(value: bytes, state: State) -> bytes | None:
    """The answer of a stream at its end, None before."""
    frame: dict[str, Any] = orjson.loads(value)
    if "events" in frame:
        state.set("answer", merge(state.get("answer"), frame))
    elif "cause" in frame:
        answer = state.get("answer")
        state.delete("answer")
        return orjson.dumps(answer)
    return None


def main(bootstrap: str, topic: str, output: str, group: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=bootstrap, consumer_group=group, auto_offset_reset="earliest", state_dir=folder,
            processing_guarantee="exactly-once", commit_interval=COMMIT_SECONDS, loglevel="WARNING",
        )  # fmt: skip
        frames = app.topic(topic, key_deserializer="bytes", value_deserializer="bytes")
        answers = app.topic(output, key_serializer="bytes", value_serializer="bytes")
        stream = app.dataframe(frames).apply(merged, stateful=True)
        stream.filter(lambda answer: answer is not None).to_topic(answers)
        app.run()


if __name__ == "__main__":
    main(*sys.argv[1:5])
