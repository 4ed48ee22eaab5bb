"""`turngate run reassembler` for tests: whoever builds a turn puts its process id into the receipt's `terminal`.

The arguments are a file and a signal. Once the file exists, the process removes it and sends itself the signal right
after the next canonical commit: the turn is true in Redis and nothing of its transaction has begun.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from turngate.domain.sequence import build_assistant_turn
from turngate.reassembler import conclude
from turngate.reassembler.__main__ import main
from turngate.runtime.logging import get_log
from turngate.runtime.redis.scripts import Answer, Scripts
from turngate.schemas.turn import Turn

COMMIT = "reassembler/commit_v1"


def signed_turn(*args: object, **kwargs: object) -> Turn:
    return build_assistant_turn(*args, **(kwargs | {"terminal": f"built by {os.getpid()}"}))  # type: ignore[arg-type]


def stop_after_a_commit(armed: Path, number: signal.Signals) -> None:
    run = Scripts.run

    async def stopping(self: Scripts, script: str, bucket: int, term: int, *args: str | bytes | int) -> Answer:
        reply = await run(self, script, bucket, term, *args)
        if script == COMMIT and reply[0] == b"ok" and armed.exists():
            armed.unlink()
            get_log().info("stopping")
            os.kill(os.getpid(), number)
        return reply

    Scripts.run = stopping  # type: ignore[method-assign]


if __name__ == "__main__":
    conclude.build_assistant_turn = signed_turn  # type: ignore[attr-defined]
    stop_after_a_commit(Path(sys.argv[1]), signal.Signals[sys.argv[2]])
    sys.exit(main())
