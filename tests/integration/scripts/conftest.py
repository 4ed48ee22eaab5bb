"""A bucket on a real server, scripts by name with arguments by name, and what is stored, as a whole.

What every script does once runs on two servers: the session's Redis, and one in cluster mode that owns all slots, which
refuses keys of two slots and keys a script was not given. What changes nothing runs on the first alone.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import pytest
import redis as blocking
from redis.asyncio import Redis

from turngate.devstack import ports, valkey
from turngate.devstack.base import Stack
from turngate.runtime.redis.keys import KINDS, bucket_keys, replay_keys
from turngate.runtime.redis.scripts import Call, Scripts, load_sources
from turngate.topology.keys import bucket_of

C = "acme/c1"
K = "acme/c1/2/call_1"
REPLAY_KEYS_SCRIPTS = ("edge/append_v1",)

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "validator/load_v1": {"c": C, "request": "r-1", "first": "0"},
    "validator/ready_v1": {
        "c": C, "request": "r-1", "cause": "", "rev": "0", "cg": "0", "o": "op-1", "base": "1", "turn": "turn-1",
        "hd": "hd-1", "spec": "spec", "seq": "seq", "owed": "owed-ready", "src": "turn-requests/0@1",
        "asked": "asked-1",
    },
    "validator/hold_v1": {
        "c": C, "request": "r-2", "cause": "", "rev": "1", "cg": "0", "verdict": "WAITING", "reason": "operation_open",
        "bytes": "request-2", "owed": "owed-hold", "delay": "", "src": "turn-requests/0@2", "asked": "asked-2",
        "longest": "30000",
    },
    "validator/pause_v1": {"c": C, "control": "ctl-1", "reason": "maintenance", "owed": "owed-pause"},
    "dispatcher/accept_v1": {
        "o": "op-1", "expected": "0", "src": "sequences/0@1", "owner": "d-0", "boot": "7", "md": "md", "rd": "rd",
        "man": "manifest", "lease": "60000", "mode": "send",
    },
    "dispatcher/renew_v1": {"owner": "d-0", "boot": "7", "lease": "60000", "o": "op-1", "gen": "1", "relay": "1"},
    "reassembler/lookup_v1": {"o": "op-1"},
    "reassembler/bind_v1": {"o": "op-1", "gen": "1", "relay": "1", "handle": "h-1", "md": "md"},
    "reassembler/commit_v1": {
        "o": "op-1", "gen": "1", "relay": "1", "md": "md", "base": "1", "cg": "0", "rev": "2", "turn": "turn-2",
        "hd": "hd-2", "calls": "1", "owed": "owed-commit", "note": "1:completed", "src": "stream-events/0@9",
    },
    "reassembler/end_v1": {
        "o": "op-1", "gen": "1", "relay": "1", "state": "TERMINATED", "evidence": "rejected", "delay": "2000",
        "owed": "owed-end", "note": "1:failed", "src": "stream-events/0@9", "expired": "", "began": "1",
        "cancelled": "",
    },
    "ledger/load_v1": {"c": C, "rev": "2"},
    "ledger/open_v1": {
        "c": C, "rev": "2", "src": "turns/0@2", "owed": "owed-open", "k": K, "st": "ORDERED", "idem": "idem",
        "ad": "ad", "gen": "1", "tool": "weather", "order": "order-1", "deadline": "60000",
    },
    "ledger/ask_v1": {"k": K},
    "ledger/order_v1": {
        "k": K, "cause": "ctl-2", "src": "control/0@1", "st": "ORDERED", "att": "1", "order": "order-2",
        "deadline": "60000", "owed": "owed-order",
    },
    "ledger/progress_v1": {"k": K, "idem": "idem", "att": "1", "n": "1"},
    "ledger/settle_v1": {
        "k": K, "c": C, "rev": "2", "src": "tool-results/0@1", "idem": "idem", "ad": "ad", "gen": "1",
        "tool": "weather", "status": "success", "res": "result-1", "owed": "owed-settle", "own": "",
    },
    "ledger/turn_v1": {
        "c": C, "rev": "2", "new": "3", "turn": "turn-3", "hd": "hd-3", "src": "tool-results/0@1",
        "next": "owed-next", "last": "owed-last", "want": "1",
    },
    "ledger/cancel_v1": {"c": C, "control": "ctl-3", "o": "op-1", "cg": "0", "src": "control/0@2"},
    "edge/snapshot_v1": {"c": C},
    "edge/append_v1": {
        "version": "", "next": "5", "state": "state", "events": "10", "bytes": "1000", "lifetime": "60000",
        "e": "event",
    },
    "recovery/operation_v1": {"o": "op-1"},
    "recovery/evidence_v1": {"o": "op-1", "gen": "1", "evidence": "operator"},
    "recovery/waiting_v1": {"c": C},
    "recovery/postpone_v1": {"timer": f"call|{K}", "delay": "500000"},
    "recovery/checkpoint_v1": {"topic": "turns", "offset": "12"},
    "recovery/bucket_v1": {"topic": "turns"},
    "recovery/adopt_turn_v1": {
        "c": C, "rev": "2", "turn": "turn-2", "hd": "hd-2", "kind": "assistant", "o": "op-1", "gen": "1", "calls": "1",
    },
    "recovery/adopt_calls_v1": {
        "c": C, "rev": "2", "kind": "assistant", "k": K, "idem": "idem", "ad": "ad", "gen": "1", "tool": "weather",
    },
    "recovery/adopt_sequence_v1": {"o": "op-1", "c": C, "base": "1", "cg": "0", "spec": "spec", "seq": "seq"},
    "recovery/adopt_manifest_v1": {"o": "op-1", "md": "md", "man": "manifest"},
    "recovery/adopt_dispatch_v1": {
        "o": "op-1", "c": C, "gen": "1", "relay": "1", "owner": "d-0", "boot": "7", "rd": "rd", "lease": "60000",
    },
    "recovery/adopt_begin_v1": {"o": "op-1", "gen": "1"},
    "recovery/adopt_outcome_v1": {"o": "op-1", "c": C, "gen": "1", "status": "failed", "delay": "2000"},
    "recovery/adopt_order_v1": {
        "k": K, "c": C, "rev": "2", "att": "1", "idem": "idem", "ad": "ad", "gen": "1", "tool": "weather",
        "order": "order-1", "grace": "60000",
    },
    "recovery/adopt_settled_v1": {"k": K, "c": C, "rev": "2", "status": "success", "res": "result-1"},
    "recovery/adopt_approval_v1": {"k": K, "c": C, "rev": "2"},
    "recovery/adopt_verdict_v1": {"c": C, "request": "r-1", "verdict": "READY", "owed": "owed-ready", "bytes": ""},
}  # fmt: skip
"""Arguments of every script, in order, as they stand in one conversation: an input turn (1), an assistant turn with one
call (2), a tool turn (3)."""


Step = tuple[str, Mapping[str, str]]
"""A script and what differs from its usual arguments."""


class Bench:
    """One bucket. Every answer and every stored value as text."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self.redis = client
        self.prefix = prefix
        self.bucket = bucket_of(C.encode())
        self.keys = (*bucket_keys(prefix, self.bucket), *replay_keys(prefix, self.bucket, C))
        self._roles: dict[str, Scripts] = {}

    def scripts(self, role: str) -> Scripts:
        if role not in self._roles:
            self._roles[role] = Scripts(self.redis, self.prefix, role)
        return self._roles[role]

    async def open(self) -> None:
        """As recovery opens a bucket, for every test but those of closed ones."""
        replid = (await self.redis.info("replication"))["master_replid"]
        await self.scripts("recovery").run("recovery/open_v1", self.bucket, 1, replid, "token", 1_000)

    async def run(self, script: str, *more: str, term: int = 1, **changes: str) -> list[str]:
        """One run. more: arguments behind the named ones. term: of the caller."""
        usual = ARGUMENTS[script]
        assert changes.keys() <= usual.keys(), f"{script} has no {changes.keys() - usual.keys()}"
        role = script.partition("/")[0]
        keys = self.keys[8:] if script in REPLAY_KEYS_SCRIPTS else ()
        call = Call(script, self.bucket, (*{**usual, **changes}.values(), *more), keys)
        (reply,) = await self.scripts(role).run_many([call], term)
        return [value.decode() if isinstance(value, bytes) else str(value) for value in reply]

    async def through(self, steps: Sequence[Step]) -> None:
        """Runs what comes before; every step has to be taken."""
        for script, changes in steps:
            answer = await self.run(script, **changes)
            assert answer[0] == "ok", (script, answer)

    async def dump(self) -> dict[str, object]:
        """All that is stored, but for the terms that the guard notes."""
        found: dict[str, object] = {}
        for key in self.keys:
            kind = await self.redis.type(key)
            if kind == b"hash":
                fields = await self.redis.hgetall(key)
                found[key] = {name: value for name, value in fields.items() if not name.startswith(b"term:")}
            elif kind == b"zset":
                found[key] = dict(await self.redis.zrange(key, 0, -1, withscores=True))
            elif kind == b"stream":
                found[key] = await self.redis.xrange(key)
        return found

    async def field(self, kind: int, name: str) -> str:
        value = await self.redis.hget(self.keys[kind], name)
        return "" if value is None else value.decode()


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in cluster mode with all slots. Skipped where this platform has no embedded server."""
    binary = valkey.binary()
    if binary is None:
        pytest.skip("no embedded server on this platform")
    folder = tmp_path_factory.mktemp("cluster")
    port, bus = ports.free_ports(2)
    with ExitStack() as stack:
        process = subprocess.Popen(
            [*(str(binary), *valkey.redis_arguments(folder, port)), "--appendonly", "no", "--cluster-enabled", "yes",
             "--cluster-port", str(bus), "--logfile", str(folder / "log")],
        )  # fmt: skip
        stack.callback(process.wait)
        stack.callback(process.kill)
        _own_all_slots(port)
        yield f"redis://127.0.0.1:{port}/0"


def _own_all_slots(port: int) -> None:
    deadline = time.monotonic() + 30
    with blocking.Redis(port=port) as client:
        while True:
            try:
                info: dict[str, str] = client.execute_command("CLUSTER INFO")
                if info["cluster_state"] == "ok":
                    return
                if info["cluster_slots_assigned"] == "0":
                    client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            except blocking.ConnectionError:
                pass
            assert time.monotonic() < deadline, "the cluster does not form"
            time.sleep(0.02)


@pytest.fixture(params=["alone", "cluster"])
def server_url(request: pytest.FixtureRequest) -> str:
    if request.param == "cluster":
        return str(request.getfixturevalue("cluster_url"))
    stack: Stack = request.getfixturevalue("stack")
    return stack.redis_url


@pytest.fixture
async def closed(server_url: str, redis_prefix: str) -> AsyncIterator[Bench]:
    """A bucket nobody has opened."""
    client = Redis.from_url(server_url)
    yield Bench(client, redis_prefix)
    await client.aclose()


@pytest.fixture
async def bench(closed: Bench) -> Bench:
    await closed.open()
    return closed


@pytest.fixture
async def lone(stack: Stack, redis_prefix: str) -> AsyncIterator[Bench]:
    """An open bucket on the session's Redis."""
    client = Redis.from_url(stack.redis_url)
    bench = Bench(client, redis_prefix)
    await bench.open()
    yield bench
    await client.aclose()


class QuickBench:
    """A bucket for many short calls: blocking, and all that is stored in one round trip."""

    def __init__(self, client: blocking.Redis, sources: Mapping[str, str], prefix: str) -> None:
        self._client = client
        self._scripts = {name: client.register_script(text) for name, text in sources.items()}
        self._keys = bucket_keys(prefix, bucket_of(C.encode()))
        replid = client.info("replication")["master_replid"]
        self._scripts["recovery/open_v1"](keys=self._keys, args=["recovery", 1, replid, "token", 1_000])

    def run(self, script: str, **changes: str) -> list[str]:
        usual = ARGUMENTS[script]
        assert changes.keys() <= usual.keys(), f"{script} has no {changes.keys() - usual.keys()}"
        role = script.partition("/")[0]
        reply = self._scripts[script](keys=self._keys, args=[role, 1, *{**usual, **changes}.values()])
        return [value.decode() if isinstance(value, bytes) else str(value) for value in reply]

    def stored(self) -> dict[str, dict[str, str]]:
        """By kind of key: fields and values; of leases and timers the names alone, without the guard's terms."""
        pipe = self._client.pipeline(transaction=False)
        for kind, key in zip(KINDS, self._keys, strict=True):
            if kind in ("leases", "timers"):
                pipe.zrange(key, 0, -1)
            else:
                pipe.hgetall(key)
        found: dict[str, dict[str, str]] = {}
        for kind, value in zip(KINDS, pipe.execute(), strict=True):
            rows = value.items() if isinstance(value, dict) else ((name, b"") for name in value)
            found[kind] = {name.decode(): text.decode() for name, text in rows if not name.startswith(b"term:")}
        return found


@pytest.fixture
def quick_benches(stack: Stack, redis_prefix: str) -> Iterator[Callable[[], QuickBench]]:
    """Makes buckets, each under a prefix of its own."""
    numbers, sources = itertools.count(), load_sources()
    with blocking.Redis.from_url(stack.redis_url) as client:
        yield lambda: QuickBench(client, sources, f"{redis_prefix}{next(numbers)}:")
