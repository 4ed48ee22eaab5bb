"""A tool executor of the tests, as a process: its tool notes each start in a file and waits for another file.

Arguments: the group, the file to note starts in (a line each: process id, call key), the file to wait for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from turngate.executor import Arguments, CallContext, ToolExecutor

group, notes, go = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
executor = ToolExecutor(group=group)


@executor.tool("wait")
async def wait(args: Arguments, ctx: CallContext) -> str:
    with notes.open("a") as file:
        file.write(f"{os.getpid()} {ctx.order.call_key}\n")
    while not go.exists():
        await asyncio.sleep(0.02)
    return f"done by {os.getpid()}"


if __name__ == "__main__":
    executor.main()
