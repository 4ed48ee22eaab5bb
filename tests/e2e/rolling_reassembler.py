"""`turngate run reassembler` of one of two builds, for tests: the builds' normalisers read another stop word.

The arguments are the build's number, a file and a log. Once the file exists, the process removes it and kills itself
right after its next canonical commit: the turn is true in Redis and nothing of its transaction has begun. Both that and
a commit whose stored answer this process was given instead are lines of the log.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from turngate.domain.adapters import normalisers
from turngate.domain.stream.operations import Normaliser, NormaliserSpec, Operation, TurnStop
from turngate.reassembler.__main__ import main
from turngate.runtime.redis.scripts import Answer, Scripts

COMMIT = "reassembler/commit_v1"


class OfBuild:
    """A normaliser whose stop word names the build. It only stands in the receipt, so digests are the same."""

    def __init__(self, inner: Normaliser, build: str) -> None:
        self._inner = inner
        self._build = build

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def event(self, value: object, raw: str, out: list[Operation]) -> None:
        before = len(out)
        self._inner.event(value, raw, out)
        for index in range(before, len(out)):
            one = out[index]
            if isinstance(one, TurnStop):
                out[index] = one._replace(value=f"{one.value} (build {self._build})")


def install(build: str) -> None:
    find = normalisers.find_normaliser

    def found(profile: str, version: int | None = None) -> NormaliserSpec:
        spec = find(profile, version)
        return replace(spec, build=lambda: OfBuild(spec.build(), build))

    normalisers.find_normaliser = found


def watch_commits(build: str, armed: Path, log: Path) -> None:
    run = Scripts.run

    def note(what: str, operation: object) -> None:
        line = json.dumps({"what": what, "operation": operation, "build": build}) + "\n"
        with log.open("a") as file:
            file.write(line)

    async def watching(self: Scripts, script: str, bucket: int, term: int, *args: str | bytes | int) -> Answer:
        reply = await run(self, script, bucket, term, *args)
        if script == COMMIT and reply[0] == b"stored":
            note("stored", args[0])
        if script == COMMIT and reply[0] == b"ok" and armed.exists():
            armed.unlink()
            note("killed", args[0])
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    Scripts.run = watching


def tell_tasks_on_signal() -> None:
    """SIGUSR1 writes to the log where every task stands."""
    run = asyncio.Runner.run

    def watched(self: asyncio.Runner, work: Coroutine[Any, Any, Any], **kwargs: Any) -> Any:
        async def inner() -> Any:
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
            return await work

        return run(self, inner(), **kwargs)

    def tell() -> None:
        for task in asyncio.all_tasks():
            print(f"task {task.get_name()}", file=sys.stderr)
            at: Any = task.get_coro()
            while at is not None:
                frame = getattr(at, "cr_frame", None) or getattr(at, "ag_frame", None) or getattr(at, "gi_frame", None)
                if frame is not None:
                    print(f"  {frame.f_code.co_qualname} line {frame.f_lineno}", file=sys.stderr)
                at = getattr(at, "cr_await", None) or getattr(at, "ag_await", None) or getattr(at, "gi_yieldfrom", None)

    asyncio.Runner.run = watched  # type: ignore[method-assign]


if __name__ == "__main__":
    tell_tasks_on_signal()
    install(sys.argv[1])
    watch_commits(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    sys.exit(main())
