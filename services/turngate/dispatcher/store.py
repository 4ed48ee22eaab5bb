"""The dispatcher's side of Redis: acceptance (step 1 of the send door) and lease renewal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.runtime.redis.scripts import Call, Scripts
from turngate.topology.keys import bucket_of


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the acceptance script answered.

    verdict: `ok` (generation, relay and accepted_at_ms are set), `already` or `refused` (then `reason` says why).
    """

    verdict: str
    reason: str = ""
    generation: int = 0
    relay: int = 0
    accepted_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One sequence command asking for acceptance."""

    key: bytes
    operation_id: str
    expected_generation: int
    source: str
    manifest_digest: str
    request_digest: str
    manifest: bytes
    mode: str


@dataclass(frozen=True, slots=True)
class Held:
    """One attempt whose lease is to be renewed."""

    key: bytes
    operation_id: str
    generation: int
    relay: int


class DispatcherStore:
    """Acceptance for one partition, under its term."""

    def __init__(self, scripts: Scripts, term: int, owner: str, boot: int, lease_ms: int) -> None:
        self._scripts = scripts
        self._term = term
        self._owner = owner
        self._boot = boot
        self._lease_ms = lease_ms

    async def accept(self, asks: Sequence[Ask]) -> list[Acceptance]:
        """Accepts strictly in order, in one round trip."""
        calls = [
            Call(
                "dispatcher/accept_v1",
                bucket_of(ask.key),
                (
                    ask.operation_id, ask.expected_generation, ask.source, self._owner, self._boot,
                    ask.manifest_digest, ask.request_digest, ask.manifest, self._lease_ms, ask.mode,
                ),
            )
            for ask in asks
        ]  # fmt: skip
        return [_acceptance(reply) for reply in await self._scripts.run_many(calls, self._term)]

    async def check_open(self, key: bytes) -> None:
        """Raises BucketClosed while the bucket of a conversation is closed: a renewal of nothing."""
        await self._scripts.run(
            "dispatcher/renew_v1", bucket_of(key), self._term, self._owner, self._boot, self._lease_ms
        )


def _acceptance(reply: Sequence[bytes]) -> Acceptance:
    verdict = reply[0].decode()
    if verdict == "ok":
        return Acceptance("ok", "", int(reply[1]), int(reply[2]), int(reply[3]))
    return Acceptance(verdict, reply[1].decode())


class LeaseStore:
    """Renewal for all attempts of this process, whoever owns their partitions now: a stream belongs to its process."""

    TERM = 0

    def __init__(self, scripts: Scripts, owner: str, boot: int, lease_ms: int) -> None:
        self._scripts = scripts
        self._owner = owner
        self._boot = boot
        self._lease_ms = lease_ms

    async def renew(self, held: Sequence[Held]) -> list[Held]:
        """Renews every lease, one script per bucket in one round trip; returns the attempts that lost their fence."""
        buckets: dict[int, list[Held]] = {}
        for attempt in held:
            buckets.setdefault(bucket_of(attempt.key), []).append(attempt)
        calls = []
        for bucket, attempts in buckets.items():
            args: list[str | bytes | int] = [self._owner, self._boot, self._lease_ms]
            for attempt in attempts:
                args += [attempt.operation_id, attempt.generation, attempt.relay]
            calls.append(Call("dispatcher/renew_v1", bucket, tuple(args)))
        lost: list[Held] = []
        replies = await self._scripts.run_many(calls, self.TERM)
        for attempts, reply in zip(buckets.values(), replies, strict=True):
            lost += [attempt for attempt, word in zip(attempts, reply[1:], strict=True) if word == b"lost"]
        return lost
