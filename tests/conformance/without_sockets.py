"""`turngate ARGUMENTS...` in a process that may open no socket and start no process: an attempt ends it with exit 99.

With the single argument `--attempt` it opens a socket itself, which shows that the guard is in place.
"""

from __future__ import annotations

import os
import socket
import sys

EXIT_ATTEMPTED = 99
_FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system")


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook. It ends the process, because an exception could be caught on its way."""
    if event.startswith(_FORBIDDEN):
        os.write(2, f"forbidden: {event}\n".encode())
        os._exit(EXIT_ATTEMPTED)


if __name__ == "__main__":
    from turngate.cli.app import run_command_line

    sys.addaudithook(refuse)
    if sys.argv[1:] == ["--attempt"]:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    sys.exit(run_command_line(sys.argv[1:]))
