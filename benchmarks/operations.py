"""Attempts that are open in Redis as validator and dispatcher leave them, and the frames of their relays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from redis.asyncio import Redis

from turngate.runtime.endpoints import Endpoint
from turngate.runtime.records import Output
from turngate.runtime.redis.registry import Toolsets
from turngate.runtime.redis.scripts import ROUND_TRIP_CALLS_MAX, Call, Scripts
from turngate.schemas.codec import encode, encode_model
from turngate.schemas.manifest import DispatchManifest, manifest_digest
from turngate.schemas.requests import TurnOptions
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.tools import ToolDeclaration, Toolset, toolset_digest
from turngate.testing.scripted import Answer, Relay, frames
from turngate.topology.keys import BUCKETS, bucket_of

TENANT = "bench"
FRAME = 16
"""Events of a frame, as the dispatcher's relay coalesces them."""
LEASE_MS = 3_600_000
DIGEST = "0" * 64
ENDPOINT = Endpoint(name="openai", api="openai-chat", profile="openai", base_url="http://127.0.0.1:1/v1")
NEEDED_TOOL = (
    '{"type":"object","properties":{"city":{"type":"string"},"notes":{"type":"array","items":{"type":"string"}}},'
    '"required":["city"],"additionalProperties":false}'
)
TOOLS = (ToolDeclaration(name="get_weather", description="Weather", input_schema=NEEDED_TOOL, side_effects="read"),)
TOOLSET = Toolset(tenant=TENANT, tools=TOOLS, toolset_digest=toolset_digest(TENANT, TOOLS))


@dataclass(frozen=True, slots=True)
class Attempt:
    """The first attempt of an operation, accepted by the send door."""

    conversation: str
    operation_id: str
    manifest_digest: str

    @property
    def key(self) -> bytes:
        return f"{TENANT}/{self.conversation}".encode()

    def frames(self, events: Sequence[str], *, ended: bool = True) -> list[Output]:
        """What its relay writes to stream-events: begin, frames of FRAME events, and `end` unless it stays open."""
        relay = Relay(
            tenant=TENANT, conversation=self.conversation, operation_id=self.operation_id, generation=1, relay=1,
            endpoint=ENDPOINT, manifest_digest=self.manifest_digest, profile="openai", normaliser="openai@1",
            method="POST", path="/chat/completions", headers={}, body=b"", idempotency_key="k",
            lease_until_boot_ms=0,
        )  # fmt: skip
        answer = Answer(events=tuple(events), frame_events=FRAME)
        found = frames(relay, answer)
        return found if ended else found[:-1]


async def open_attempts(redis: Redis, prefix: str, count: int) -> list[Attempt]:
    """Opens every bucket, then `count` operations of a conversation each, through the roles' own scripts."""
    await Toolsets(redis, prefix).put(TOOLSET)
    replid = str((await redis.info("replication"))["master_replid"])
    opened = [Call("recovery/open_v1", bucket, (replid, "token", 1)) for bucket in range(BUCKETS)]
    await Scripts(redis, prefix, "recovery").run_many(opened, 0)
    made = [_operation(number) for number in range(count)]
    validator, dispatcher = Scripts(redis, prefix, "validator"), Scripts(redis, prefix, "dispatcher")
    for at in range(0, count, ROUND_TRIP_CALLS_MAX):
        several = made[at : at + ROUND_TRIP_CALLS_MAX]
        await validator.run_many([_ready(spec) for spec, _ in several], 0)
        await dispatcher.run_many([_accepted(spec, man) for spec, man in several], 0)
    return [Attempt(spec.conversation, spec.operation_id, man.manifest_digest) for spec, man in made]


def _operation(number: int) -> tuple[OperationSpec, DispatchManifest]:
    conversation, operation = f"conversation-{number}", f"{number:064x}"
    options = TurnOptions(endpoint="openai", model="m-1", max_output_tokens=4096, toolset_digest=TOOLSET.toolset_digest)
    spec = OperationSpec(
        operation_id=operation, request_id=f"ask-{number}", tenant=TENANT, conversation=conversation,
        base_revision=1, cancel_generation=0, sequence_digest=f"{number + 1:064x}", options=options,
    )  # fmt: skip
    draft = DispatchManifest(
        operation_id=operation, tenant=TENANT, conversation=conversation, conversation_revision=1,
        sequence_digest=spec.sequence_digest, adapter="openai-chat@1", adapter_digest=DIGEST, normaliser="openai@1",
        profile="openai", provider="openai", model="m-1", toolset_digest=TOOLSET.toolset_digest, policy_digest=DIGEST,
        path="/chat/completions", request_digest=f"{number + 2:064x}", request_bytes=1, token_count=1,
        max_output_tokens=4096, manifest_digest=DIGEST, created_at_ms=0,
    )  # fmt: skip
    return spec, draft.model_copy(update={"manifest_digest": manifest_digest(draft)})


def _ready(spec: OperationSpec) -> Call:
    key = f"{TENANT}/{spec.conversation}"
    args = (
        key, spec.request_id, "", 0, 0, spec.operation_id, 1, b"{}", DIGEST, encode_model(spec), b"{}", b"[]", "",
        DIGEST,
    )  # fmt: skip
    return Call("validator/ready_v1", bucket_of(key.encode()), args)


def _accepted(spec: OperationSpec, manifest: DispatchManifest) -> Call:
    args = (
        spec.operation_id, 0, "sequences/0@0", "bench", 1, manifest.manifest_digest, DIGEST, encode(manifest),
        LEASE_MS, "send",
    )  # fmt: skip
    return Call("dispatcher/accept_v1", bucket_of(f"{TENANT}/{spec.conversation}".encode()), args)


def interleaved(streams: Sequence[Sequence[Output]], open_at_once: int) -> Iterator[Output]:
    """Frames of many relays as one partition sees them: so many streams open at a time, a frame of each in turn."""
    waiting = iter(streams)
    running = [iter(stream) for stream in islice(waiting, open_at_once)]
    while running:
        still: list[Iterator[Output]] = []
        for stream in running:
            frame = next(stream, None)
            if frame is None:
                following = next(waiting, None)
                if following is None:
                    continue
                stream = iter(following)
                frame = next(stream)
            yield frame
            still.append(stream)
        running = still
