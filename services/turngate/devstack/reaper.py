"""The process that outlives its parent just long enough to end what the parent started.

Run by path with stdin = the read end of a pipe whose write end only the parent holds (and, until their exec,
the children it starts). A line `+<pid>` names a process group to end, `-<pid>` takes it back. End of file
means the parent is gone, by whatever signal: every group still named gets SIGTERM, and SIGKILL after the
grace. Needs nothing but the standard library and POSIX, so Linux and macOS behave alike; it is immune to the
terminal's signals.
"""

from __future__ import annotations

import os
import signal
import sys
import time

GRACE_SECONDS = 5.0
POLL_SECONDS = 0.02


def signal_group(group: int, number: int) -> bool:
    """Send `number` (0 only asks) to a process group; False when the group no longer exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS answers EPERM for a group in which only zombies are left.
        return False
    return True


def read_groups(stream: int) -> set[int]:
    """The groups still registered when the pipe `stream` ends. Torn last lines cannot happen: lines are <
    PIPE_BUF.
    """
    groups: set[int] = set()
    rest = b""
    while data := os.read(stream, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line[:1] == b"+":
                groups.add(group)
            else:
                groups.discard(group)
    return groups


def end_groups(groups: set[int], grace_seconds: float = GRACE_SECONDS) -> None:
    """SIGTERM to all, SIGKILL to those that still exist after `grace_seconds`. SIGCONT wakes stopped ones
    first.
    """
    for group in groups:
        signal_group(group, signal.SIGTERM)
        signal_group(group, signal.SIGCONT)
    deadline = time.monotonic() + grace_seconds
    left = set(groups)
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = {group for group in left if signal_group(group, 0)}
    for group in left:
        signal_group(group, signal.SIGKILL)


def main() -> None:
    """Wait for the parent's end, then end its children."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    end_groups(read_groups(sys.stdin.fileno()))


if __name__ == "__main__":
    main()
